"""Writes tests/golden/gpt2 and tests/golden/llama: a tiny model of each, as transformers saves it, and what it computes.

    python3 tests/golden/make_gpt.py          (needs torch, transformers and safetensors)

expected.safetensors has tokens "x" and targets "y" [2, 7], and by transformers in float64 from the file's float32 weights:
"logits", "loss", and "gradient.NAME" of some parameters by Ringtape's names and layouts.
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "long"))
from gpt_against_transformers import compute, in_our_names  # noqa: E402

CONFIGS = {
    "gpt2": transformers.GPT2Config(vocab_size=13, n_positions=9, n_embd=8, n_layer=2, n_head=2, attn_pdrop=0, resid_pdrop=0,
                                    embd_pdrop=0),
    "llama": transformers.LlamaConfig(vocab_size=13, max_position_embeddings=9, hidden_size=16, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, intermediate_size=10, rope_theta=500.0,
                                      rms_norm_eps=1e-5, tie_word_embeddings=False),
}
# Every parameter of the first block, which every gradient of the second goes through, and those of the whole model.
WITH_GRADIENTS = ("h.0.", "wte.", "wpe.", "ln_f.", "lm_head.")


def make(name, config):
    kind = transformers.GPT2LMHeadModel if name == "gpt2" else transformers.LlamaForCausalLM
    model = kind(config).eval()
    with torch.no_grad():  # as large as those of a trained model, and all different
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(FOLDER / name)
    (FOLDER / name / "generation_config.json").unlink()
    x, y = (torch.randint(config.vocab_size, (2, 7)) for _ in range(2))
    results = in_our_names(compute(model.double(), x, y), config)
    results = {key: value.contiguous() for key, value in results.items()
               if not key.startswith("gradient.") or key.removeprefix("gradient.").startswith(WITH_GRADIENTS)}
    made_by = f"tests/golden/make_gpt.py with transformers {transformers.__version__}, PyTorch {torch.__version__.split('+')[0]}"
    save_file({"x": x, "y": y, **results}, FOLDER / name / "expected.safetensors", {"made_by": made_by})
    sizes = {path.name: path.stat().st_size for path in sorted((FOLDER / name).iterdir())}
    print(f"{name}: {len(results)} results, {sizes}")


if __name__ == "__main__":
    for seed, (name, config) in enumerate(CONFIGS.items()):
        torch.manual_seed(seed)
        make(name, config)
