"""Training and sampling a diffusion U-Net (diffusers) on latents of mixed heights and widths.

Batches are of one aspect ratio each, drawn anew; after every sixth step a few denoising steps run
without gradients, with a batch of their own.
"""

import random

import torch
from diffusers import DDPMScheduler, UNet2DModel

SEED, STEPS = 20_272, 14
BATCHES, SIDES = (4, 8, 12, 16), (32, 40, 48, 56, 64, 72)
CUDA = torch.device("cuda")


def main() -> None:
    """Train from random weights."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    with CUDA:
        model = UNet2DModel(
            in_channels=4,
            out_channels=4,
            layers_per_block=2,
            block_out_channels=(192, 384, 384, 768),
            down_block_types=("DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
        )
    noise = DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(1, STEPS + 1):
        shape = (draw.choice(BATCHES), 4, draw.choice(SIDES), draw.choice(SIDES))
        clean, added = torch.rand(shape, device=CUDA), torch.randn(shape, device=CUDA)
        times = torch.randint(0, 1000, shape[:1], device=CUDA)
        guess = model(noise.add_noise(clean, added, times), times).sample
        loss = torch.nn.functional.mse_loss(guess, added)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del clean, added, guess, loss
        if step % 6 == 0:
            latents = torch.randn(2, 4, draw.choice(SIDES), draw.choice(SIDES), device=CUDA)
            with torch.no_grad():
                for time in (900, 600, 300):
                    latents = noise.step(model(latents, time).sample, time, latents).prev_sample
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
