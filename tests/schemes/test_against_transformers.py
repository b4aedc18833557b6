"""Whole models against peers with the same random weights: ALiBi against Bloom and MPT, RoPE against Llama, T5."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lengthlab.commands import build
from lengthlab.schemes.nope import NoPE

VOCAB, LAYERS, EPS = 97, 2, 1e-5
LENGTHS = (16, 64, 257)
HEADS = pytest.mark.parametrize("heads", [4, 6, 8])


@pytest.fixture
def gpt_of(config_of):
    """A GPT in eval mode with weights so large that attention is peaked, and every norm's gain its own."""

    def make(name: str, heads: int, **options):
        sizes = {"heads": heads, "width": 8 * heads, "layers": LAYERS, "norm_eps": EPS, "tied_head": False}
        model = build.model_of(config_of(name, **sizes, **options), VOCAB)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        return model.eval()

    return make


def copied(target: nn.Module, **modules: nn.Module) -> None:
    """Copy weights (and biases, where both have them) into the modules of `target` with these names."""
    for name, source in modules.items():
        missing, surplus = target.get_submodule(name).load_state_dict(source.state_dict(), strict=False)
        assert not surplus and set(missing) <= {"bias"}


def bloom_of(model):
    """Bloom with the model's weights: its norm after the embedding is taken out, biases of its linear maps are zero."""
    from transformers import BloomConfig, BloomForCausalLM

    width, heads = model.config.width, model.config.heads
    bloom = BloomForCausalLM(
        BloomConfig(
            vocab_size=VOCAB, hidden_size=width, n_layer=LAYERS, n_head=heads, layer_norm_epsilon=EPS,
            tie_word_embeddings=False,
        )
    ).eval()  # fmt: skip
    bloom.transformer.word_embeddings_layernorm = nn.Identity()
    for module in bloom.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for ours, theirs in zip(model.blocks, bloom.transformer.h, strict=True):
        copied(
            theirs,
            input_layernorm=ours.attention_norm,
            post_attention_layernorm=ours.mlp_norm,
            **{"self_attention.dense": ours.attention.out},
            **{"mlp.dense_h_to_4h": ours.mlp.up, "mlp.dense_4h_to_h": ours.mlp.out},
        )
        parts = (ours.attention.query, ours.attention.key, ours.attention.value)
        fused = torch.stack([part.weight.view(heads, -1, width) for part in parts], dim=1)  # (H,3,K,D)
        theirs.self_attention.query_key_value.weight.data = fused.reshape(3 * width, width)
    copied(bloom, **{"transformer.ln_f": model.norm, "lm_head": model.head})
    bloom.transformer.word_embeddings.weight.data = model.embedding.weight.data * width**0.5
    return bloom


def llama_of(model):
    """Llama with the model's weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = model.config
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCAB, hidden_size=config.width, intermediate_size=model.blocks[0].mlp.up.out_features,
            num_hidden_layers=LAYERS, num_attention_heads=config.heads, num_key_value_heads=config.groups,
            rms_norm_eps=EPS, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        )
    ).eval()  # fmt: skip
    for ours, theirs in zip(model.blocks, llama.model.layers, strict=True):
        attention, mlp = ours.attention, ours.mlp
        copied(theirs, input_layernorm=ours.attention_norm, post_attention_layernorm=ours.mlp_norm)
        copied(theirs.self_attn, q_proj=attention.query, k_proj=attention.key, v_proj=attention.value)
        copied(theirs.self_attn, o_proj=attention.out)
        copied(theirs.mlp, gate_proj=mlp.gate, up_proj=mlp.up, down_proj=mlp.out)
    copied(llama, **{"model.norm": model.norm, "lm_head": model.head})
    llama.model.embed_tokens.weight.data = model.embedding.weight.data * config.width**0.5
    return llama


def mpt_of(model):
    """MPT with the model's weights: norms with the bias that ours have, GELU in the form of ours."""
    from transformers import MptConfig, MptForCausalLM

    width, heads = model.config.width, model.config.heads
    config = MptConfig(
        d_model=width, n_heads=heads, n_layers=LAYERS, vocab_size=VOCAB, max_seq_len=max(LENGTHS),
        tie_word_embeddings=False, attn_implementation="eager",
    )  # fmt: skip
    mpt = MptForCausalLM(config).eval()
    for ours, theirs in zip(model.blocks, mpt.transformer.blocks, strict=True):
        theirs.norm_1, theirs.norm_2, theirs.ffn.act = ours.attention_norm, ours.mlp_norm, nn.GELU(approximate="tanh")
        copied(theirs, **{"attn.out_proj": ours.attention.out})
        copied(theirs.ffn, up_proj=ours.mlp.up, down_proj=ours.mlp.out)
        parts = (ours.attention.query, ours.attention.key, ours.attention.value)
        theirs.attn.Wqkv.weight.data = torch.cat([part.weight for part in parts])
    mpt.transformer.norm_f, mpt.lm_head.weight.data = model.norm, model.head.weight.data
    mpt.transformer.wte.weight.data = model.embedding.weight.data * width**0.5
    return mpt


class T5Layer(nn.Module):
    """`transformers`' T5Attention of a decoder in the place of ours, with its weights and the table of buckets.

    T5 does not divide its logits by sqrt(K): the query's weights hold the factor.
    """

    def __init__(self, model, attention):
        from transformers import T5Config
        from transformers.models.t5.modeling_t5 import T5Attention

        super().__init__()
        width, heads = model.config.width, model.config.heads
        config = T5Config(d_model=width, d_kv=width // heads, num_heads=heads, is_decoder=True, dropout_rate=0.0)
        self.theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
        copied(self.theirs, q=attention.query, k=attention.key, v=attention.value, o=attention.out)
        self.theirs.q.weight.data /= (width // heads) ** 0.5
        self.theirs.relative_attention_bias.weight.data = model.scheme.table.data

    def forward(self, x, *position):
        length = x.shape[1]
        return self.theirs(x, mask=torch.full((length, length), float("-inf")).triu(1)[None, None])[0]


def t5_of(model):
    """The model with T5's attention, and no position but what that adds."""
    peer = deepcopy(model)
    peer.scheme = NoPE(model.scheme.dims)
    for block in peer.blocks:
        block.attention = T5Layer(model, block.attention)
    return lambda input_ids: SimpleNamespace(logits=peer(input_ids, torch.arange(input_ids.shape[1])))


@torch.no_grad()
def check(model, peer) -> None:
    """Equal logits at every length; and without the scheme they are not equal, so the comparison can fail."""
    without = deepcopy(model)
    without.scheme = NoPE(model.scheme.dims)
    for length in LENGTHS:
        tokens, pos = torch.randint(VOCAB, (2, length)), torch.arange(length)
        expected = peer(input_ids=tokens).logits
        torch.testing.assert_close(model(tokens, pos), expected, atol=1e-4, rtol=0)
        assert (without(tokens, pos) - expected).abs().max() > 1e-2


@HEADS
def test_alibi_is_blooms(gpt_of, heads):
    model = gpt_of("alibi", heads, norm="layernorm", activation="gelu")
    check(model, bloom_of(model))


@HEADS
@pytest.mark.parametrize("name", ["alibi", "alibi_symmetric"])
def test_alibi_is_mpts(gpt_of, name, heads):
    model = gpt_of(name, heads, norm="layernorm", activation="gelu")
    check(model, mpt_of(model))


@HEADS
def test_t5_is_t5s(gpt_of, heads):
    model = gpt_of("t5", heads)
    check(model, t5_of(model))


@HEADS
@pytest.mark.parametrize("share", [1, 2], ids=["mha", "gqa"])
def test_rope_is_llamas(gpt_of, heads, share):
    model = gpt_of("rope", heads, norm="rmsnorm", activation="swiglu", mlp_ratio=8 / 3, kv_heads=heads // share)
    check(model, llama_of(model))
