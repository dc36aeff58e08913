"""Tables of docs/gpt.md: training and generation compared with other programs. tests/long/gpt_against_others.py and
gpt_against_nanogpt.py write the results."""
import statistics

WORK = {"4x64": "step, 4 x 64 tokens", "1x1024": "step, 1 x 1,024 tokens", "token": "token, batch 1"}


def others(results, time_text):
    """A row for each kind of work: our time, and the times of others relative to it."""
    works = {}
    for row in results.rows("gpt_steps"):
        works.setdefault(row["size"], {})[row["name"]] = row
    programs = list(dict.fromkeys(name for found in works.values() for name in found if name != "Ringtape"))
    lines = []
    for size, found in works.items():
        case, dtype = size.split()
        ours = found["Ringtape"]
        limit = f"{ours['seconds'] / ours['limit_seconds']:.2f}" if "limit_seconds" in ours else ""
        lines.append([f"{WORK[case]}, {dtype}", f"{time_text(ours['seconds'])} ({time_text(ours['lowest_seconds'])} to {time_text(ours['highest_seconds'])})"]
                     + [f"{found[name]['seconds'] / ours['seconds']:.2f}" if name in found else "" for name in programs]
                     + [" / ".join(f"{found[name]['peak_bytes'] / 2**30:.2f}" for name in ["Ringtape", *programs] if name in found), limit])
    return ["GPT-2, 124 M", "Ringtape", *(f"{name}, over ours" for name in programs), "peak memory, GiB, in this order", "over the weights' bytes"], lines


def shakespeare(results, time_text):
    """A row for each program: the loss over its seeds, and the time of a step."""
    programs = {}
    for row in results.rows("gpt_shakespeare"):
        programs.setdefault(row["name"], []).append(row)
    lines = []
    for name, rows in programs.items():
        losses = [row["loss"] for row in rows]
        lines.append([name, f"{statistics.mean(losses):.4f} ({min(losses):.4f} to {max(losses):.4f})",
                      time_text(statistics.median(row["seconds"] for row in rows))])
    return ["program", f"loss on the whole validation split, mean of {len(losses)} seeds", "time of a step, median"], lines
