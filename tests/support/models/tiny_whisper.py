"""A model of Whisper's kind with random weights, as faster-whisper reads it."""

from pathlib import Path


def write_tiny_whisper(folder: Path) -> Path:
    """Write it into a folder; it needs transformers, torch and ctranslate2."""
    import ctranslate2
    from transformers import (
        PreTrainedTokenizerFast,
        WhisperConfig,
        WhisperForConditionalGeneration,
    )

    given, written = folder / "given", folder / "written"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=_tokenizer(), unk_token="<|endoftext|>")
    names = tokenizer.get_vocab()
    config = WhisperConfig(
        vocab_size=len(names),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        bos_token_id=names["<|endoftext|>"],
        eos_token_id=names["<|endoftext|>"],
        pad_token_id=names["<|endoftext|>"],
        decoder_start_token_id=names["<|startoftranscript|>"],
        suppress_tokens=[],
        begin_suppress_tokens=[],
    )
    model = WhisperForConditionalGeneration(config)
    model.save_pretrained(given)
    tokenizer.save_pretrained(given)
    converter = ctranslate2.converters.TransformersConverter(
        str(given), copy_files=["tokenizer.json"]
    )
    converter.convert(str(written))
    return written


def _tokenizer() -> object:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    named = "endoftext startoftranscript translate transcribe startoflm startofprev nospeech"
    times = ["notimestamps", *(f"{place * 0.02:.2f}" for place in range(1501))]
    tokenizer.add_special_tokens(
        [AddedToken(f"<|{name}|>", special=True) for name in (*named.split(), *times)]
    )
    return tokenizer
