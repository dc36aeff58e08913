#!/usr/bin/env python3
"""Compares GPT with Hugging Face's GPT-2 and Llama: logits, loss, every gradient, ten steps of AdamW, and the files we save.

    tests/long/gpt_against_transformers.py [--bin build/release/bin] [--cases 20] [--seed 0]

Random small configurations. The error of a tensor is its largest difference from the same model in f64, relative to the
largest value. Ours must be at most 1e-5, and at most twice PyTorch's in f32 (or 1e-6, if twice that is less). Exits with
1 if a case fails.
"""
import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

LARGEST_ERROR = 1e-5
NEGLIGIBLE = 1e-6
STEPS = 10


def random_config(rng):
    heads = rng.choice([1, 2, 3, 4])
    head = rng.choice([8, 16, 32, 40, 64])
    common = {"vocab_size": rng.randint(5, 300)}
    layers, context = rng.randint(1, 3), rng.randint(4, 150)
    if rng.random() < 0.5:
        return GPT2Config(n_positions=context, n_embd=heads * head, n_layer=layers, n_head=heads,
                          n_inner=rng.choice([None, 3 * head]), tie_word_embeddings=rng.random() < 0.8, attn_pdrop=0, resid_pdrop=0, embd_pdrop=0, **common)
    kv = rng.choice([n for n in range(1, heads + 1) if heads % n == 0])
    return LlamaConfig(max_position_embeddings=context, hidden_size=heads * head, num_hidden_layers=layers,
                       num_attention_heads=heads, num_key_value_heads=kv, intermediate_size=rng.randint(1, 200),
                       tie_word_embeddings=rng.random() < 0.5, **common)


def make_model(config):
    model = (GPT2LMHeadModel if config.model_type == "gpt2" else LlamaForCausalLM)(config)
    with torch.no_grad():  # larger and all different, so that every term shows
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def compute(model, x, y):
    model.zero_grad()
    logits = model(x).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
    loss.backward()
    return {"logits": logits.detach(), "loss": loss.detach(),
            **{f"gradient.{name}": p.grad.clone() for name, p in model.named_parameters()}}


def train(model, x, y):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    losses = []
    for _ in range(STEPS):
        losses.append(compute(model, x, y)["loss"].item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
    return losses


def in_our_names(results, config):
    """The results of transformers with the names and layouts of Ringtape's parameters."""
    named = {}
    parts = {}
    for name, tensor in results.items():
        short = name.replace("gradient.transformer.", "gradient.")
        if config.model_type == "gpt2":
            conv = short.endswith("weight") and any(part in short for part in ("c_attn", "c_proj", "c_fc"))
            named[short] = tensor.T if conv else tensor
            continue
        short = short.replace("gradient.model.layers.", "gradient.h.")
        for theirs, ours in [("model.embed_tokens", "wte"), ("model.norm", "ln_f"), ("input_layernorm", "ln_1"),
                             ("post_attention_layernorm", "ln_2"), ("self_attn.o_proj", "attn.c_proj"),
                             ("mlp.gate_proj", "mlp.c_gate"), ("mlp.up_proj", "mlp.c_fc"),
                             ("mlp.down_proj", "mlp.c_proj")]:
            short = short.replace(theirs, ours)
        for part in ("q", "k", "v"):
            if f"self_attn.{part}_proj" in short:
                parts.setdefault(short.replace(f"self_attn.{part}_proj", "attn.c_attn"), {})[part] = tensor
                break
        else:
            named[short] = tensor
    for name, three in parts.items():
        named[name] = torch.cat([three["q"], three["k"], three["v"]])
    return named


def error_of(found, exact):
    return (found.double() - exact).abs().max().item() / exact.abs().max().item()


def check(case, config, binary, folder, rng, ratios):
    torch.manual_seed(case)
    model = make_model(config)
    batch = rng.randint(1, 4)
    context = config.n_positions if config.model_type == "gpt2" else config.max_position_embeddings
    length = rng.randint(1, context)
    x, y = (torch.randint(config.vocab_size, (batch, length)) for _ in range(2))
    model.save_pretrained(folder)
    save_file({"x": x, "y": y}, folder / "tokens.safetensors")
    subprocess.run([binary / "gpt_cases", folder, folder / "out.safetensors", str(STEPS)], check=True)
    ours = load_file(folder / "out.safetensors")
    theirs = in_our_names(compute(model, x, y), config)
    again = type(model).from_pretrained(folder / "again")
    problems = [f"the file of save_gpt differs in {name}" for name, p in again.named_parameters()
                if not torch.equal(p, dict(model.named_parameters())[name])]
    exact_model = type(model)(config).eval().double()
    exact_model.load_state_dict(model.state_dict())
    exact_model.double()
    exact = in_our_names(compute(exact_model, x, y), config)
    worst = (0.0, 0.0, "")
    largest = max(value.abs().max().item() for name, value in exact.items() if name.startswith("gradient."))
    for name, value in exact.items():
        if name not in ours:
            problems.append(f"{name} is missing")
            continue
        # The key's bias shifts all scores of a row equally: its gradient is zero but for rounding errors.
        if value.abs().max().item() < 1e-12:
            found = ours[name].abs().max().item()
            if not found <= NEGLIGIBLE * largest:
                problems.append(f"{name}: {found:.2e}, expected 0 but for roundings of gradients up to {largest:.2e}")
            continue
        own, torch_error = error_of(ours[name].reshape(value.shape), value), error_of(theirs[name], value)
        ratios.setdefault(name.split(".", 3)[-1], []).append(own / max(torch_error, 1e-9))
        worst = max(worst, (own, torch_error, name))
        if not own <= min(LARGEST_ERROR, max(2 * torch_error, NEGLIGIBLE)):
            problems.append(f"{name}: error {own:.2e}, PyTorch's in f32 {torch_error:.2e}")
    for ours_loss, theirs_loss in zip(ours["losses"].tolist(), train(model, x, y), strict=True):
        if not abs(ours_loss - theirs_loss) <= LARGEST_ERROR * max(1, theirs_loss):
            problems.append(f"loss of a step of AdamW: {ours_loss}, PyTorch's {theirs_loss}")
    shape = f"{config.model_type}, batch {batch}, {length} tokens"
    print(f"case {case}: {shape}: largest error {worst[0]:.2e} ({worst[2]}; PyTorch in f32 {worst[1]:.2e})", flush=True)
    for problem in problems:
        print(f"  {problem}")
    return not problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    failed = 0
    ratios = {}
    for case in range(options.cases):
        with tempfile.TemporaryDirectory() as folder:
            failed += not check(case, random_config(rng), options.bin, Path(folder), rng, ratios)
    print("error over that of PyTorch in f32, by kind of tensor: median, largest, number of tensors")
    for name in sorted(ratios):
        values = sorted(ratios[name])
        print(f"{name}: {values[len(values) // 2]:.2f} {values[-1]:.2f} {len(values)}")
    print(f"{options.cases} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
