"""The forward pass of the Llama family (arXiv 2302.13971, 2407.21783), over trees of tokens.

It reads one file of weights that is mapped into memory, the projections of a layer that read the
same input fused. Query heads share keys and values in groups (arXiv 2305.13245), positions rotate
them (RoPE, arXiv 2104.09864; frequencies scaled linearly or as in Llama 3). No transformers is
imported, whose import takes longer than a question.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn import functional
from torch.nn.functional import embedding, rms_norm, scaled_dot_product_attention, silu

from kgqa.decoding.arrays import on_device
from kgqa.decoding.model import AttentionBlock, ColumnCache, FixedBatch, TreeModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor


_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")
_ROPES = ("default", "linear", "llama3")
_Attend: TypeAlias = "Callable[[int, Tensor, Tensor, Tensor], Tensor]"  # layer, query, key, value


class _Layer(NamedTuple):
    """The weights of one transformer layer."""

    norm: Tensor
    mixing: Tensor  # query, key, value
    mixed: Tensor
    wide_norm: Tensor
    wide: Tensor  # gate, up
    narrow: Tensor


def reads(config: Mapping[str, Any]) -> bool:
    """Return whether this module can run a model of this ``config.json``."""
    return (
        config.get("model_type") == "llama"
        and config.get("hidden_act", "silu") == "silu"
        and not any(config.get(name) for name in ("attention_bias", "mlp_bias"))
        and not config.get("quantization_config")
        and _rope(config)[0] in _ROPES
    )


class Llama(TreeModel):
    """A Llama model in eval mode that runs token trees; ``weights`` come from :func:`fused`."""

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        own: Any = SimpleNamespace(**config, get_text_config=lambda: own)
        self.config = own
        self._heads = int(config["num_attention_heads"])
        self._shared = int(config.get("num_key_value_heads") or self._heads)
        self._size = int(config.get("head_dim") or config["hidden_size"] // self._heads)
        self._epsilon = float(config.get("rms_norm_eps", 1e-6))
        self._embedding = weights["embedding"]
        self._head = weights.get("head", self._embedding)
        self._norm = weights["norm"]
        self._layers = [
            _Layer(*(weights[f"{number}.{name}"] for name in _Layer._fields))
            for number in range(int(config["num_hidden_layers"]))
        ]
        self._frequency = frequencies(config, self._size).to(self.device)

    @property
    def embedding(self) -> Tensor:
        """The token embeddings, ``[tokens, width]``."""
        return self._embedding

    def states(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        blocks: Sequence[AttentionBlock],
        cache: ColumnCache,
    ) -> Tensor:
        """Return the last hidden states ``[tokens, width]``; write keys and values to ``cache``."""
        masks = [self._mask(block.seen) for block in blocks]

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            """Cache a layer's keys and values, and return the attention output of all blocks."""
            keys, values = cache.write(key[None], value[None], layer)
            mixed = query.new_empty(len(query), self._heads * self._size)
            for block, mask in zip(blocks, masks, strict=True):
                own = slice(block.start, block.stop)
                mixed[own] = self._attention(query[own], block.of(keys), block.of(values), mask)
            return mixed

        ids = on_device(np.array([tokens, positions], np.int64), self.device)
        return self._through(ids[0], ids[1], attend)

    def reserve(self, cache: ColumnCache) -> None:
        """Make the buffers of ``cache`` wide enough for all its columns, in every layer."""
        cache.reserve(len(self._layers), self._embedding.new_empty(1, self._shared, 0, self._size))

    def fixed_states(self, batch: FixedBatch, cache: ColumnCache) -> Tensor:
        """Return the last hidden states ``[tokens, width]``; write keys and values to ``cache``."""
        questions, longest, columns = batch.seen.shape
        shared, size, group = self._shared, self._size, self._heads // self._shared
        hidden = torch.zeros(batch.seen.shape, dtype=self.dtype, device=self.device)
        mask = hidden.masked_fill_(~batch.seen, -torch.inf).repeat(1, group, 1)[:, None]

        def held(cached: Tensor, new: Tensor) -> Tensor:
            """Write new keys or values to the cache; return those that each question attends to."""
            cached.index_copy_(2, batch.columns, new[None])
            own = cached[0].index_select(1, batch.held)
            return own.view(shared, questions, columns, size).transpose(0, 1)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            """Return a layer's attention output, computed over the grid of questions."""
            keys, values = cache.buffers(layer)
            grid = query.index_select(0, batch.rows).view(questions, longest, shared, group, size)
            grid = grid.permute(0, 2, 3, 1, 4).reshape(questions, shared, group * longest, size)
            mixed = scaled_dot_product_attention(
                grid, held(keys, key), held(values, value), attn_mask=mask
            )
            mixed = mixed.view(questions, shared, group, longest, size).permute(0, 3, 1, 2, 4)
            flat = mixed.reshape(questions * longest, self._heads * size)
            return flat.index_select(0, batch.places)

        return self._through(batch.tokens, batch.positions, attend)

    def _through(self, tokens: Tensor, positions: Tensor, attend: _Attend) -> Tensor:
        """Run all layers over ``tokens``; ``attend`` computes the attention of a layer."""
        heads, shared, size = self._heads, self._shared, self._size
        state = embedding(tokens, self._embedding)
        angle = positions[:, None] * self._frequency
        cos, sin = (turn[:, None].to(state.dtype) for turn in (angle.cos(), angle.sin()))
        for number, layer in enumerate(self._layers):
            made = linear(rms_norm(state, state.shape[1:], layer.norm, self._epsilon), layer.mixing)
            both = made[:, : (heads + shared) * size].view(-1, heads + shared, size)
            low, high = both[..., : size // 2], both[..., size // 2 :]
            turned = torch.cat([low * cos - high * sin, high * cos + low * sin], -1)
            value = made[:, (heads + shared) * size :].view(-1, shared, size)
            mixed = attend(
                number, turned[:, :heads], turned[:, heads:].transpose(0, 1), value.transpose(0, 1)
            )
            state = state + linear(mixed, layer.mixed)
            normed = rms_norm(state, state.shape[1:], layer.wide_norm, self._epsilon)
            gate, up = linear(normed, layer.wide).chunk(2, -1)
            state = state + linear(silu(gate).mul_(up), layer.narrow)
        return rms_norm(state, state.shape[1:], self._norm, self._epsilon)

    def _mask(self, seen: Tensor) -> Tensor:
        """Return the additive attention mask of ``seen``, repeated for heads that share a key."""
        hidden = torch.zeros(seen.shape, dtype=self.dtype, device=seen.device)
        return hidden.masked_fill_(~seen, -torch.inf).repeat(self._heads // self._shared, 1)[None]

    def _attention(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Attend from ``query`` ``[tokens, heads, size]``; return ``[tokens, heads * size]``."""
        rows, shared, size = len(query), self._shared, self._size
        group = self._heads // shared
        # heads that share keys are rows of one matrix: keys and values are read once for all
        mixed = scaled_dot_product_attention(
            query.view(rows, shared, group, size)
            .permute(1, 2, 0, 3)
            .reshape(1, shared, group * rows, size),
            keys,
            values,
            attn_mask=mask,
        )
        mixed = mixed.view(shared, group, rows, size).permute(2, 0, 1, 3)
        return mixed.reshape(rows, self._heads * size)

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits ``[states, vocabulary]`` of hidden states."""
        return linear(states, self._head)


def fused(model: Any, *, taken: bool = False) -> dict[str, Tensor]:
    """Return the weights of a ``LlamaForCausalLM``, with joined projections, for :class:`Llama`.

    ``taken``: empty the model's own weights as they are joined, to save memory; it is unusable
    then.
    """
    state = model.state_dict()
    weights = {"embedding": state["model.embed_tokens.weight"], "norm": state["model.norm.weight"]}
    head = model.get_output_embeddings().weight
    if head.data_ptr() != weights["embedding"].data_ptr():
        weights["head"] = state["lm_head.weight"]
    parts = {
        "norm": ["input_layernorm"],
        "mixing": [f"self_attn.{part}_proj" for part in "qkv"],
        "mixed": ["self_attn.o_proj"],
        "wide_norm": ["post_attention_layernorm"],
        "wide": ["mlp.gate_proj", "mlp.up_proj"],
        "narrow": ["mlp.down_proj"],
    }
    for number in range(model.config.num_hidden_layers):
        for name, joined in parts.items():
            names = [f"model.layers.{number}.{part}.weight" for part in joined]
            weights[f"{number}.{name}"] = torch.cat([state[part] for part in names])
            for part in names if taken else ():
                model.get_parameter(part).data = state.pop(part).new_empty(0)
    return {name: weight.detach().contiguous() for name, weight in weights.items()}


def linear(states: Tensor, weight: Tensor) -> Tensor:
    """Multiply states ``[n, in]`` by a weight ``[out, in]``; return ``[n, out]``."""
    if states.device.type == "cpu" and states.dtype == torch.float32 and _ONEDNN:
        # by default torch calls MKL, which takes twice the time on an AMD CPU
        made: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, None, "none", [], "")
        return made
    return functional.linear(states, weight)


def _rope(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the type of a config's rotary position embedding ("default"), and its settings."""
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return str(stated.get("rope_type") or stated.get("type") or "default"), stated


def frequencies(config: Mapping[str, Any], size: int) -> Tensor:
    """Return the rotary frequency of each pair of dimensions of a head."""
    kind, stated = _rope(config)
    base = float(stated.get("rope_theta") or config.get("rope_theta") or 10_000.0)
    plain = 1.0 / (base ** (torch.arange(0, size, 2, dtype=torch.int64).float() / size))
    if kind == "default":
        return plain
    factor = float(stated["factor"])
    if kind == "linear":
        return plain / factor
    # Llama 3: slow turns are slowed down, fast ones left, and those between get a mixture
    low, high = float(stated["low_freq_factor"]), float(stated["high_freq_factor"])
    turns = float(stated["original_max_position_embeddings"]) * plain / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return plain * kept + plain / factor * (1.0 - kept)
