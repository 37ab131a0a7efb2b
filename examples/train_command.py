"""Trains by a command, as torchrun would: `pyrite study trainer='python train_command.py --data {data} …'` runs it."""

import argparse
import json

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("model", "data", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--seed", type=int, required=True)
    chosen = parser.parse_args()
    torch.manual_seed(chosen.seed)
    model = SentenceTransformer(chosen.model, device="cpu")
    with open(chosen.data) as file:
        rows = Dataset.from_list([json.loads(line) for line in file])  # query, positive, negative_1, …
    arguments = SentenceTransformerTrainingArguments(
        f"{chosen.out}/steps", seed=chosen.seed, per_device_train_batch_size=16, max_steps=4, report_to="none",
        save_strategy="no",
    )  # fmt: skip
    SentenceTransformerTrainer(model, arguments, rows, loss=MultipleNegativesRankingLoss(model)).train()
    model.save_pretrained(chosen.out)
