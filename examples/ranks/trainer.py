"""transformers' Trainer over a tiny Llama with random weights: DDP, or FSDP where asked for."""

import json
import sys
import tempfile

import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    """Random tokens, made on the CPU."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        tokens = torch.randint(0, 1000, (128,), generator=torch.Generator().manual_seed(place))
        return {"input_ids": tokens, "labels": tokens}


config = LlamaConfig(
    vocab_size=1000,
    hidden_size=256,
    intermediate_size=1024,
    num_hidden_layers=4,
    num_attention_heads=8,
)
sharded = {
    "fsdp": True,
    "fsdp_config": {"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]},
}
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    max_steps=3,
    per_device_train_batch_size=4,
    report_to=[],
    save_strategy="no",
    bf16=True,
    disable_tqdm=True,
    **(sharded if "fsdp" in sys.argv else {}),
)
trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=Tokens())
trainer.train()
cuda = torch.cuda
told = {
    "rank": dist.get_rank(),
    "world_size": dist.get_world_size(),
    "device": cuda.current_device(),
    "allocated": cuda.max_memory_allocated(),
    "reserved": cuda.max_memory_reserved(),
}
print(json.dumps(told), flush=True)
