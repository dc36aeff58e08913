"""Writes the golden files in tests/golden: PyTorch's results for functions that must agree with it.

    python3 tests/golden/make_golden.py          (needs torch, numpy and safetensors)

The files are committed, so this runs again only when a case is added. Inputs are float32 values; results are
computed by PyTorch in float64 from those inputs, so that a test can hold both f64 results (to 1e-13) and
f32 results (to a few roundings) against them. The exceptions say so.
"""

import pathlib
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).resolve().parent


def values(*shape, low=-2.0, high=2.0):
    """Uniform float32 values."""
    return torch.empty(*shape, dtype=torch.float32).uniform_(low, high)


def leaf(x):
    return x.double().requires_grad_(True)


def write(name, tensors):
    metadata = {"made_by": f"tests/golden/make_golden.py with PyTorch {torch.__version__.split('+')[0]}"}
    tensors = {key: value.detach().clone().contiguous() for key, value in tensors.items()}
    path = FOLDER / f"{name}.safetensors"
    save_file(tensors, path, metadata)
    print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def record(out, case, inputs, function, gradient=True):
    """Adds case.in0, ..., case.out and, for a random gradient of the output, case.dout, case.d0, ..."""
    for i, x in enumerate(inputs):
        out[f"{case}.in{i}"] = x
    leaves = [leaf(x) if x.is_floating_point() else x for x in inputs]
    y = function(*leaves)
    out[f"{case}.out"] = y.clone()
    if not gradient:
        return
    dy = torch.ones(()) if y.dim() == 0 else values(*y.shape)
    y.backward(dy.double())
    out[f"{case}.dout"] = dy
    for i, x in enumerate(leaves):
        if x.is_floating_point():
            out[f"{case}.d{i}"] = x.grad


def operations():
    out = {}
    record(out, "linear", [values(6, 5), values(4, 5), values(4)], F.linear)
    record(out, "linear_no_bias", [values(6, 5), values(4, 5)], F.linear)
    record(out, "linear_3d", [values(2, 3, 5), values(4, 5), values(4)], F.linear)
    special = values(5, 7)
    special[0, :3] = torch.tensor([0.0, -0.0, 1e-30])
    record(out, "relu", [special], F.relu)
    record(out, "matmul", [values(3, 5), values(5, 4)], torch.matmul)
    x = values(3, 4, 5)
    for dim in (0, 1, 2, -1):
        record(out, f"sum_dim{dim}", [x], lambda t, d=dim: t.sum(d))
        record(out, f"mean_dim{dim}", [x], lambda t, d=dim: t.mean(d))
    record(out, "sum_keep", [x], lambda t: t.sum(1, keepdim=True))
    record(out, "sum", [x], torch.sum)
    record(out, "mean", [x], torch.mean)
    for dim in (0, 1, -1):
        record(out, f"cat_dim{dim}", [values(2, 3, 4), values(2, 3, 4)], lambda a, b, d=dim: torch.cat([a, b], d))
        record(out, f"stack_dim{dim}", [values(2, 3), values(2, 3)], lambda a, b, d=dim: torch.stack([a, b], d))
    record(out, "cat_uneven", [values(2, 1, 4), values(2, 3, 4)], lambda a, b: torch.cat([a, b], 1))
    write("operations", out)


def losses():
    out = {}
    a, b = values(4, 6), values(4, 6)
    for reduction in ("mean", "sum"):
        record(out, f"mse_{reduction}", [a, b], lambda p, t, r=reduction: F.mse_loss(p, t, reduction=r))

    logits = values(7, 5, low=-4, high=4)
    targets = torch.tensor([0, 4, 2, 2, 1, 3, 0])
    some_ignored = torch.tensor([0, -100, 2, -100, 1, 3, -100])
    extreme = values(7, 5)
    extreme[0] = torch.tensor([1e4, -1e4, 0.0, 1.0, 2.0])
    extreme[1] = torch.tensor([-3e38, 3e38, 0.0, 0.0, 0.0])  # target 4: the loss is 3e38
    extreme[2] = torch.tensor([88.0, 89.0, 90.0, 91.0, 92.0])
    extreme[3] = -3e4
    ignored_class = torch.tensor([0, 4, 2, 2, 1, 3, 2])
    cases = {
        "plain": (logits, targets, {}),
        "ignored": (logits, some_ignored, {}),
        "ignore_class_2": (logits, ignored_class, {"ignore_index": 2}),
        "smoothing": (logits, some_ignored, {"label_smoothing": 0.1}),
        "smoothing_1": (logits, targets, {"label_smoothing": 1.0}),
        "extreme": (extreme, targets, {}),
        "all_ignored": (logits, torch.full((7,), -100), {}),
        "one_class": (values(3, 1), torch.tensor([0, 0, 0]), {}),
    }
    for name, (x, t, options) in cases.items():
        for reduction in ("mean", "sum"):
            record(out, f"ce_{name}_{reduction}", [x, t],
                   lambda p, q, r=reduction, o=options: F.cross_entropy(p, q, reduction=r, **o))
    write("losses", out)


def mlp():
    """Gradients of a 12-16-5 network, as model.named_parameters() calls them."""
    model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
    x, t = values(9, 12), torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3])
    out = {"x": x, "targets": t}
    for name, parameter in model.named_parameters():
        out[name] = parameter.clone()
    model = model.double()
    logits = model(x.double())
    loss = F.cross_entropy(logits, t)
    loss.backward()
    out |= {"logits": logits, "loss": loss}
    for name, parameter in model.named_parameters():
        out[f"{name}.grad"] = parameter.grad
    write("mlp", out)


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.01}),
    "sgd_decay": (torch.optim.SGD, {"lr": 0.01, "weight_decay": 0.1}),
    "sgd_momentum": (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9}),
    "sgd_dampening": (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01}),
    "sgd_nesterov": (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "adam": (torch.optim.Adam, {"lr": 1e-3}),
    "adam_decay": (torch.optim.Adam, {"lr": 1e-3, "weight_decay": 0.1}),
    "adam_betas": (torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3}),
    "adamw": (torch.optim.AdamW, {"lr": 1e-3}),
    "adamw_decay": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.3}),
    "sgd_groups": (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}),
    "adam_groups": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "adamw_groups": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.3}),
}
STEPS = 50
SHAPES = [(5, 3), (7,), (2, 4)]


def parameters_or_groups(name, parameters, options):
    """In the cases with groups, parameter 1 is not decayed, and 2 has a third of the rate and twice the decay."""
    if not name.endswith("_groups"):
        return parameters
    slow = {"params": [parameters[2]], "lr": options["lr"] / 3, "weight_decay": 2 * options["weight_decay"]}
    return [{"params": [parameters[0]]}, {"params": [parameters[1]], "weight_decay": 0}, slow]


def optimizers():
    """50 steps with given gradients. Parameter 1 has no gradient in every step s with s % 4 == 1."""
    start = [values(*shape) for shape in SHAPES]
    gradients = [values(STEPS, *shape) for shape in SHAPES]
    out = {}
    for i in range(len(SHAPES)):
        out[f"start{i}"], out[f"gradients{i}"] = start[i], gradients[i]
    for name, (kind, options) in OPTIMIZERS.items():
        parameters = [leaf(x) for x in start]
        optimizer = kind(parameters_or_groups(name, parameters, options), **options)
        for step in range(STEPS):
            for i, parameter in enumerate(parameters):
                absent = i == 1 and step % 4 == 1
                parameter.grad = None if absent else gradients[i][step].double()
            optimizer.step()
            if step + 1 in (1, 2, 10, STEPS):
                for i, parameter in enumerate(parameters):
                    out[f"{name}.{step + 1}.{i}"] = parameter.clone()
    write("optimizers", out)


def clipping():
    gradients = [values(*shape) for shape in SHAPES]
    out = {f"gradient{i}": g for i, g in enumerate(gradients)}
    for name, max_norm in (("tight", 1.0), ("loose", 100.0)):
        parameters = [leaf(torch.zeros(*shape)) for shape in SHAPES]
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.double()
        out[f"{name}.norm"] = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        for i, parameter in enumerate(parameters):
            out[f"{name}.{i}"] = parameter.grad
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient.double()
    torch.nn.utils.clip_grad_value_(parameters, 0.75)
    for i, parameter in enumerate(parameters):
        out[f"value.{i}"] = parameter.grad
    for norm_type in (1, 2.5, 3, float("inf")):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.double()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type)
        out[f"norm{norm_type}.norm"] = norm
        for i, parameter in enumerate(parameters):
            out[f"norm{norm_type}.{i}"] = parameter.grad
    write("clipping", out)


def rounding():
    """f32 bit patterns and the f16 and bf16 patterns that PyTorch rounds them to; checksums of the way back."""
    patterns = set()
    for bits in range(0, 65536, 251):  # values of both formats, their neighbours, and the ties between them
        for kind in (torch.float16, torch.bfloat16):
            pair = torch.tensor([bits, min(bits + 1, 65535)], dtype=torch.int32).to(torch.uint16).view(kind).float()
            tie = ((pair[0].double() + pair[1].double()) / 2).float()
            for value in (pair[0], tie):
                if torch.isfinite(value):
                    base = int(value.view(torch.int32)) & 0xFFFFFFFF
                    patterns |= {base, (base + 1) & 0xFFFFFFFF, (base - 1) & 0xFFFFFFFF}
    edges = [65504, 65519.99, 65520, 65536, 6.1e-5, 5.97e-8, 2.98e-8, 2.99e-8, 1e-8, 1e-45, 1e-40, 3.3895e38,
             3.39e38, 3.4028e38, 0.0, float("inf")]
    for edge in edges:
        for value in (edge, -edge):
            patterns.add(int(np.float32(value).view(np.uint32)))
    patterns |= {0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC12345}  # NaNs
    bits = torch.from_numpy(np.array(sorted(patterns), dtype=np.uint32).view(np.int32).copy())
    floats = bits.view(torch.float32)
    out = {
        "f32_bits": bits,
        "f16_bits": floats.half().view(torch.uint16).to(torch.int32),
        "bf16_bits": floats.bfloat16().view(torch.uint16).to(torch.int32),
    }
    every = torch.arange(65536, dtype=torch.int32).to(torch.uint16)
    for kind, name in ((torch.float16, "f16"), (torch.bfloat16, "bf16")):
        table = every.view(kind).float()
        table = torch.where(torch.isnan(table), torch.zeros(()), table)  # a NaN's payload is not compared
        out[f"{name}_table_crc32"] = torch.tensor([zlib.crc32(table.numpy().tobytes())], dtype=torch.int64)
    write("rounding", out)


def initialisation():
    """Largest size and standard deviation of the values that torch.nn.Linear starts from."""
    out = {}
    for inputs, outputs in ((16, 50000), (784, 2000)):
        layer = torch.nn.Linear(inputs, outputs)
        for name, parameter in layer.named_parameters():
            out[f"{inputs}.{name}"] = torch.stack([parameter.abs().max(), parameter.std()]).double()
    write("initialisation", out)


def schedules():
    """The rates of 60 steps from 0.1, by torch.optim.lr_scheduler."""
    from torch.optim import lr_scheduler

    makers = {
        "step": lambda o: lr_scheduler.StepLR(o, step_size=7, gamma=0.3),
        "polynomial": lambda o: lr_scheduler.PolynomialLR(o, total_iters=50, power=2),
        "linear": lambda o: lr_scheduler.LinearLR(o, start_factor=1, end_factor=0, total_iters=50),
        "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=60, eta_min=1e-4),
        "one_cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=60, pct_start=0.1),
        "constant_warmup": lambda o: lr_scheduler.ConstantLR(o, factor=1 / 3, total_iters=5),
        "linear_warmup_cosine": lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.LinearLR(o, start_factor=1 / 6, total_iters=5),
                lr_scheduler.CosineAnnealingLR(o, T_max=55)], milestones=[5]),
    }
    out = {}
    for name, make in makers.items():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        scheduler = make(optimizer)
        rates = []
        for _ in range(60):
            rates.append(scheduler.get_last_lr()[0])
            optimizer.step()
            if len(rates) < 60:
                scheduler.step()
        out[name] = torch.tensor(rates, dtype=torch.float64)
    write("schedules", out)


def loss_scale():
    """The course of torch.amp.GradScaler's scale, doubled after 5 steps in a row without an overflow: a random
    stretch, growth up to where doubling would overflow f32, and a long fall."""
    steps = 60
    overflows = [int(torch.rand(()) < 0.15) for _ in range(steps)] + [0] * 600 + [1] * 40 + [0] * 12
    scale = torch.full((), 65536.0)
    tracker = torch.zeros((), dtype=torch.int32)
    out = {"scale": [], "growth_tracker": []}
    for overflow in overflows:
        torch._amp_update_scale_(scale, tracker, torch.tensor(float(overflow)), 2.0, 0.5, 5)
        out["scale"].append(scale.item())
        out["growth_tracker"].append(tracker.item())
    write("loss_scale", {"overflows": torch.tensor(overflows, dtype=torch.int32),
                         **{name: torch.tensor(course, dtype=torch.float64) for name, course in out.items()}})


if __name__ == "__main__":
    torch.manual_seed(20)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for part in (operations, losses, mlp, optimizers, clipping, rounding, initialisation, schedules,
                 loss_scale):
        part()
