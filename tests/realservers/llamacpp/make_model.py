"""Write a tiny model with random weights that a real llama.cpp serves: nonsense words, real tokens, real endings.

    make_model.py OUT.gguf [--mean-tokens 40]

Its architecture is phi2, for one reason: the output layer has a bias, so how often each token comes, and with it how
long answers are, can be written down instead of trained. Needs gguf and numpy.
"""

import argparse
import math

import gguf
import numpy as np
from words import WORDS

END = 2
WIDTH, LAYERS, HEADS, CONTEXT = 64, 2, 4, 8192
# The share of the words' probability that llama.cpp's default samplers (top-k, top-p, min-p) leave.
SAMPLED = 0.68
NEVER = -30.0  # as a logit: a token that is read but not said


def vocabulary(mean_tokens: int) -> list[tuple[str, gguf.TokenType, float]]:
    """Return text, type and logit of every token; the end comes once in `mean_tokens` on average."""
    control, byte, normal = gguf.TokenType.CONTROL, gguf.TokenType.BYTE, gguf.TokenType.NORMAL
    tokens = [("<unk>", gguf.TokenType.UNKNOWN, NEVER), ("<s>", control, NEVER)]
    tokens.append(("</s>", control, math.log(SAMPLED * len(WORDS) / (mean_tokens - 1))))
    tokens += [(f"<0x{value:02X}>", byte, NEVER) for value in range(256)]
    tokens += [("\u2581" + word, normal, 0.0) for word in WORDS]
    # The tokenizer joins neighbours pair by pair, so each beginning of a word must be a token too.
    pieces = {("\u2581" + word)[:end] for word in WORDS for end in range(1, len(word) + 1)}
    pieces |= {chr(code) for code in range(33, 127)}
    known = {text for text, _, _ in tokens}
    tokens += [(piece, normal, NEVER) for piece in sorted(pieces - known)]
    return tokens


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("out")
    options.add_argument("--mean-tokens", type=int, default=40)
    chosen = options.parse_args()
    random = np.random.default_rng(20)
    tokens = vocabulary(chosen.mean_tokens)

    writer = gguf.GGUFWriter(chosen.out, "phi2")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(WIDTH * 2)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _, _ in tokens])
    writer.add_token_scores([float(len(text)) for text, _, _ in tokens])  # longer pieces join first
    writer.add_token_types([kind for _, kind, _ in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(True)
    writer.add_chat_template(
        "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
    )

    def weight(rows: int, columns: int, size: float) -> np.ndarray:
        return (random.standard_normal((rows, columns)) * size).astype(np.float32)

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(WIDTH, dtype=np.float32))

    def linear(name: str, rows: int, columns: int) -> None:
        writer.add_tensor(f"{name}.weight", weight(rows, columns, 1 / math.sqrt(columns)))
        writer.add_tensor(f"{name}.bias", np.zeros(rows, dtype=np.float32))

    writer.add_tensor("token_embd.weight", weight(len(tokens), WIDTH, 1.0))
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm")
        linear(f"{block}.attn_qkv", 3 * WIDTH, WIDTH)
        linear(f"{block}.attn_output", WIDTH, WIDTH)
        linear(f"{block}.ffn_up", 2 * WIDTH, WIDTH)
        linear(f"{block}.ffn_down", WIDTH, 2 * WIDTH)
    norm("output_norm")
    # What was read before sways the choice of words a little, but never the end; the bias decides the rest.
    output = weight(len(tokens), WIDTH, 0.5 / math.sqrt(WIDTH))
    output[END] = 0.0
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output.bias", np.array([logit for _, _, logit in tokens], dtype=np.float32))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()


main()
