"""Tables of benchmarks/results/training, the results of scripts/training_runs.py. Each function takes the folder."""
import dataclasses
import statistics

import training_runs as runs

NAMES = {"sgd": "SGD, momentum 0.9", "adam": "Adam", "lamb": "LAMB", "lars": "LARS"}
RULES = {"64": "64", "none": "4,096, not scaled", "sqrt": "4,096, square root", "linear": "4,096, linear"}


def cell(row, bold=False):
    mark = "**" if bold else ""
    return f"{mark}{row.median:.2f}%{mark} ({row.range_text()})"


def batch_table(folder):
    """A row for each batch, a column for each optimizer; the highest median of a row is in bold."""
    rows = runs.shown("batch-table", folder)
    lines = []
    for batch in runs.BATCHES:
        best = max(rows[batch, optimizer].median for optimizer in runs.OPTIMIZERS)
        lines.append([f"{batch:,}"] + [
            f"{cell(row, row.median == best)}, {runs.rate_of(row.flags):g}, {runs.warmup_of(row.flags)}"
            for row in (rows[batch, optimizer] for optimizer in runs.OPTIMIZERS)])
    return ["batch"] + [NAMES[optimizer] for optimizer in runs.OPTIMIZERS], lines


def batch_table_in_words(folder):
    rows = runs.shown("batch-table", folder)
    medians = {batch: {o: rows[batch, o].median for o in runs.OPTIMIZERS} for batch in runs.BATCHES}
    leads = [batch for batch in runs.BATCHES if medians[batch]["lars"] == max(medians[batch].values())]
    clear = [batch for batch in leads if min(rows[batch, "lars"].values) >
             max(max(rows[batch, o].values) for o in runs.OPTIMIZERS if o != "lars")]
    small = max(max(medians[b].values()) - min(medians[b].values()) for b in (64, 512))
    spread = {o: max(max(rows[b, o].values) - min(rows[b, o].values) for b in runs.BATCHES) for o in runs.OPTIMIZERS}
    largest = medians[16384]
    layerwise = min(largest["lamb"], largest["lars"]) - max(largest["sgd"], largest["adam"])
    warm = sum(runs.warmup_of(row.flags) > 0 for row in rows.values())
    return [f"Up to a batch of 512 the medians of a row lie within {small:.1f} points. From 4,096 on there are few updates (15 an",
            "epoch, then 8, then 4), each must be large, and the two optimizers that scale a step to the norm of the weights are",
            f"ahead in this search, at 16,384 by {layerwise:.1f} points or more. LARS has the highest median in {len(leads)} rows of {len(runs.BATCHES)}; "
            f"in {len(clear)} of them its worst",
            f"seed is above every seed of the others. Its seeds differ by up to {spread['lars']:.1f} points where LAMB's differ by "
            f"at most {spread['lamb']:.2f}.",
            f"A warm-up was the better choice in {warm} of the {len(rows)} cells."]


def adam_warmup_in_words(folder):
    rows, table = runs.shown("adam-warmup", folder), runs.shown("batch-table", folder)
    texts = [f"{row.median:.2f}% ({row.range_text()}) at {batch:,}, where the table has {table[batch, 'adam'].median:.2f}% and "
             f"LAMB {table[batch, 'lamb'].median:.2f}%" for batch, row in rows.items()]
    return ["How much that decides: with a constant rate after a warm-up of 40% of the updates, which the table did not offer, Adam",
            f"reaches {texts[0]},", f"and {texts[1]}."]


def recipes(folder):
    rows = runs.shown("recipes", folder)
    texts = {"lamb-8192": "LAMB, batch 8192, rate 0.06", "lamb-16384": "LAMB, batch 16384, rate 0.1"}
    return ["recipe", "flags", "test accuracy, seeds 0 to 4"], [
        [f"`{name}`", texts[name], ", ".join(f"{value:.2f}" for value in row.values) + "%"] for name, row in rows.items()]


def mnist_in_words(folder):
    row = runs.shown("mnist", folder)["default"]
    return [f"**MNIST**, 784-256-10, Adam, default settings, 3 epochs: {row.median:.2f}% test accuracy as the median of the seeds "
            f"0 to 4 ({row.range_text()})."]


def lesson_10(folder):
    rows = runs.shown("lesson-10", folder)
    return ["batch and rule", "without warm-up", "with 15 updates of it"], [
        [text] + [cell(rows[rule, warmup]) if (rule, warmup) in rows else "" for warmup in ("0", "15")]
        for rule, text in RULES.items()]


def lesson_10_gpt(folder):
    """The loss at each rate, for small and large batches; the lowest median of a column is in bold."""
    rows = runs.shown("lesson-10-gpt", folder)
    columns = {(8, 0): "8 sequences, no warm-up", (8, 160): "8, 160 updates of it", (128, 0): "128 sequences, no warm-up",
               (128, 10): "128, 10 updates of it"}
    lines = [[f"{rate:g}"] for rate in runs.GPT_RATES]
    for batch, warmup in columns:
        column = [rows[batch, rate, warmup] for rate in runs.GPT_RATES]
        best = min(row.median for row in column)
        for line, row in zip(lines, column):
            mark = "**" if row.median == best else ""
            line.append(f"{mark}{row.median:.2f}{mark} ({min(row.values):.2f} to {max(row.values):.2f})")
    return ["rate", *columns.values()], lines


def lesson_11(folder):
    rows = runs.shown("lesson-11", folder)
    return ["", "rate", "schedule", "updates of warm-up", "test accuracy"], [
        [NAMES[name], f"{runs.rate_of(row.flags):g}", runs.setting(row.flags, "--schedule"),
         str(runs.warmup_of(row.flags)), cell(row)] for name, row in rows.items()]


def lesson_11_searches(folder):
    """The best mean over the seeds of the search, with an increasing number of choices."""
    claim = runs.CLAIMS["lesson-11"]
    accuracy = runs.read(folder / "lesson-11.csv")

    def best(name, factors, may_take):
        search = dataclasses.replace(claim, factors=factors)
        found = search.candidates(name, search.rates) + search.candidates(name, search.finer(name, accuracy))
        return f"{max(statistics.mean(accuracy[flags, seed] for seed in claim.tuned_on) for flags in found if may_take(flags)):.2f}%"

    # The finer rates are around the best rate over all schedules and warm-ups, so only searches over all of these have them.
    searches = {"the eleven rates alone; linear decay, no warm-up": ((), lambda f: f.endswith("--schedule linear --warmup 0")),
                "eleven rates and the warm-up; linear decay": ((), lambda f: "--schedule linear" in f),
                "eleven rates, warm-up and schedule": ((), lambda f: True),
                "the same, then the best rate times 0.5 and 2": ((0.5, 1, 2), lambda f: True),
                "the same, then times 0.7 and 1.4": (claim.factors, lambda f: True)}
    return ["searched"] + [NAMES[name] for name in runs.OPTIMIZERS], [
        [text] + [best(name, *search) for name in runs.OPTIMIZERS] for text, search in searches.items()]


def lesson_38(folder):
    """The results of lesson 11, and LARS with two other ways to treat biases."""
    names = {"ratio": "LARS, biases with a trust ratio", "thousandth": "LARS, biases at a thousandth of the rate"}
    head, lines = lesson_11(folder)
    return head, lines + [[names[way], f"{runs.rate_of(row.flags):g}", runs.setting(row.flags, "--schedule"),
                           str(runs.warmup_of(row.flags)), cell(row)] for way, row in runs.shown("lesson-38", folder).items()]


WAYS = {"rate": ("rate / 4 after each stage", (64, 64, 64)), "batch": ("batch x 4 after each stage", (64, 256, 1024)),
        "neither": ("neither", (64, 64, 64)), "large": ("1,024 from the start", (1024, 1024, 1024))}


def lesson_32(folder):
    """The four ways with the settings that the search chose, the updates of their three stages of two epochs, and the final
    curvature."""
    rows, curvature = (runs.shown(claim, folder) for claim in ("lesson-32", "lesson-32-curvature"))
    lines = []
    for way, (text, batches) in WAYS.items():
        if curvature[way].flags != rows[way].flags + " --curvature":
            raise ValueError(f"lesson-32-curvature: expected the flags that the search of lesson-32 chose, {rows[way].flags}")
        lines.append([text, f"{runs.rate_of(rows[way].flags):g}", runs.setting(rows[way].flags, "--momentum"),
                      f"{sum(runs.updates(batch, 2) for batch in batches):,}", cell(rows[way]),
                      f"{curvature[way].median:.2f} ({curvature[way].range_text()})"])
    return ["", "first rate", "momentum", "updates", "test accuracy", "largest curvature"], lines


def lesson_32_one_rate(folder):
    """The final curvature with a batch of 64 and of 1,024, at the same rates."""
    rows = runs.shown("lesson-32-one-rate", folder)
    return ["rate", "batch 64", "batch 1,024"], [
        [f"{rate:g}"] + [f"{rows[way, rate].median:.2f} ({rows[way, rate].range_text()})" for way in ("neither", "large")] for rate in (0.03, 0.1)]


def compression(folder):
    """The bytes that gradients in 16 bits take, and their effect on the loss."""
    sent = {name: runs.shown(f"compress-{name}-bytes", folder) for name in ("mnist", "gpt")}
    loss = {name: runs.shown(f"compress-{name}", folder) for name in ("mnist", "gpt")}
    lines = []
    for dtype in runs.COMPRESSIONS:
        lines.append(["f32" if dtype == "none" else dtype])
        for name in ("mnist", "gpt"):
            row = loss[name][dtype]
            lines[-1] += [f"{sent[name][dtype].median:,.0f}", f"{row.median:.5f} ({row.range_text()})"]
    return ["gradients in", "MNIST: bytes a step", "test loss", "GPT: bytes a step", "test loss"], lines


TABLES = {"training compression": compression, "training batches": batch_table, "training recipes": recipes, "training lesson 10": lesson_10,
          "training lesson 10 gpt": lesson_10_gpt,
          "training lesson 11": lesson_11, "training lesson 11 searches": lesson_11_searches,
          "training lesson 32": lesson_32, "training lesson 32 one rate": lesson_32_one_rate,
          "training lesson 38": lesson_38}
IN_WORDS = {"training batches in words": batch_table_in_words, "training mnist in words": mnist_in_words,
            "training adam warm-up in words": adam_warmup_in_words}
