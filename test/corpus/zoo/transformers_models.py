"""Models of transformers: every family of encoders and decoders at two layers, and some of published size."""
from zoo.registry import LEN, VOCAB, Flat, Floats, Ids, Mask, add
from zoo.torchvision_models import image


def masks_without_vmap():
    """Build attention masks by transformers' own export-friendly function.  The
    default one uses torch.vmap, which neither torch.jit.trace ("unordered_map::at")
    nor torch.export.save can handle; the masks are the same."""
    from transformers import masking_utils
    from transformers.integrations.executorch import sdpa_mask_without_vmap
    masking_utils.sdpa_mask = sdpa_mask_without_vmap           # used by eager_mask
    masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.register("sdpa", sdpa_mask_without_vmap)


def register_transformers():
    def hf(name, cls, config, fields, names, *inputs, pick=None, fixed=None, suite="small", attn=None, **kw):
        """`config` is the configuration class, `fields` its arguments."""
        def build():
            import transformers
            masks_without_vmap()
            cfg = getattr(transformers, config)(**fields)
            if attn:
                cfg._attn_implementation = attn
            net = getattr(transformers, cls)(cfg)
            return Flat(net, names, pick, **{"return_dict": False, **(fixed or {})})
        add("hf_" + name, "transformers", build, *inputs, suite=suite, **kw)

    ids, mask = Ids(LEN, high=VOCAB, low=5), Mask(LEN)
    both = ["input_ids", "attention_mask"]
    no_cache = {"use_cache": False}
    base = dict(vocab_size=VOCAB, hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
                intermediate_size=256, max_position_embeddings=64)
    tok = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)

    # Encoders, with a padding mask.
    hf("bert", "BertModel", "BertConfig", base, both, ids, mask)
    hf("bert_eager", "BertForMaskedLM", "BertConfig", base, both, ids, mask, attn="eager")
    hf("roberta", "RobertaForSequenceClassification", "RobertaConfig", base, both, ids, mask)
    hf("distilbert", "DistilBertForSequenceClassification", "DistilBertConfig",
       dict(vocab_size=VOCAB, dim=128, n_layers=2, n_heads=4, hidden_dim=256, max_position_embeddings=64),
       both, ids, mask)
    hf("albert", "AlbertModel", "AlbertConfig", dict(base, embedding_size=32), both, ids, mask)
    hf("electra", "ElectraForPreTraining", "ElectraConfig", dict(base, embedding_size=64), both, ids, mask)
    hf("deberta_v2", "DebertaV2Model", "DebertaV2Config",
       dict(base, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16,
            norm_rel_ebd="layer_norm", share_att_key=True), both, ids, mask)
    hf("funnel", "FunnelBaseModel", "FunnelConfig",
       dict(vocab_size=VOCAB, block_sizes=[1, 1], d_model=128, n_head=4, d_head=32, d_inner=256), both, ids, mask)
    hf("xlnet", "XLNetModel", "XLNetConfig", dict(vocab_size=VOCAB, d_model=128, n_layer=2, n_head=4, d_inner=256),
       both, ids, mask, fixed={"use_mems": False})
    hf("modernbert", "ModernBertModel", "ModernBertConfig",
       dict(base, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
            local_attention=8, reference_compile=False), both, ids, mask, attn="sdpa")
    hf("fnet", "FNetModel", "FNetConfig", base, ["input_ids"], ids)
    hf("mobilebert", "MobileBertModel", "MobileBertConfig",
       dict(base, embedding_size=64, intra_bottleneck_size=64, num_feedforward_networks=2), both, ids, mask)

    # Decoders.
    hf("gpt2", "GPT2LMHeadModel", "GPT2Config",
       dict(vocab_size=VOCAB, n_positions=64, n_embd=128, n_layer=2, n_head=4), ["input_ids"], ids, fixed=no_cache)
    hf("gpt2_eager", "GPT2LMHeadModel", "GPT2Config",
       dict(vocab_size=VOCAB, n_positions=64, n_embd=128, n_layer=2, n_head=4), both, ids, mask,
       fixed=no_cache, attn="eager")
    hf("gpt_neo", "GPTNeoForCausalLM", "GPTNeoConfig",
       dict(vocab_size=VOCAB, max_position_embeddings=64, hidden_size=128, num_layers=2, num_heads=4,
            intermediate_size=256, attention_types=[[["global", "local"], 1]], window_size=8),
       ["input_ids"], ids, fixed=no_cache)
    hf("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", base, ["input_ids"], ids, fixed=no_cache)
    hf("gptj", "GPTJForCausalLM", "GPTJConfig",
       dict(vocab_size=VOCAB, n_positions=64, n_embd=128, n_layer=2, n_head=4, rotary_dim=16),
       ["input_ids"], ids, fixed=no_cache)
    hf("opt", "OPTForCausalLM", "OPTConfig",
       dict(vocab_size=VOCAB, hidden_size=128, num_hidden_layers=2, ffn_dim=256, num_attention_heads=4,
            max_position_embeddings=64, word_embed_proj_dim=128), both, ids, mask, fixed=no_cache)
    hf("bloom", "BloomForCausalLM", "BloomConfig", dict(vocab_size=VOCAB, hidden_size=128, n_layer=2, n_head=4),
       both, ids, mask, fixed=no_cache)
    hf("falcon", "FalconForCausalLM", "FalconConfig",
       dict(vocab_size=VOCAB, hidden_size=128, num_hidden_layers=2, num_attention_heads=4),
       ["input_ids"], ids, fixed=no_cache)
    hf("phi", "PhiForCausalLM", "PhiConfig", base, ["input_ids"], ids, fixed=no_cache)
    gqa = dict(base, num_key_value_heads=2)
    hf("llama", "LlamaForCausalLM", "LlamaConfig", gqa, ["input_ids"], ids, fixed=no_cache)
    hf("llama_eager", "LlamaForCausalLM", "LlamaConfig", gqa, both, ids, mask, fixed=no_cache, attn="eager")
    hf("mistral", "MistralForCausalLM", "MistralConfig", dict(gqa, sliding_window=8), both, ids, mask, fixed=no_cache)
    hf("qwen2", "Qwen2ForCausalLM", "Qwen2Config", gqa, ["input_ids"], ids, fixed=no_cache)
    hf("qwen3", "Qwen3ForCausalLM", "Qwen3Config", dict(gqa, head_dim=32), ["input_ids"], ids, fixed=no_cache)
    hf("gemma", "GemmaForCausalLM", "GemmaConfig", dict(gqa, head_dim=32), ["input_ids"], ids, fixed=no_cache)
    hf("gemma2", "Gemma2ForCausalLM", "Gemma2Config", dict(gqa, head_dim=32, sliding_window=8), ["input_ids"], ids,
       fixed=no_cache, attn="eager")
    hf("olmo2", "Olmo2ForCausalLM", "Olmo2Config", gqa, ["input_ids"], ids, fixed=no_cache)
    hf("mixtral", "MixtralForCausalLM", "MixtralConfig", dict(gqa, num_local_experts=4), ["input_ids"], ids,
       fixed=no_cache)
    hf("mamba", "MambaForCausalLM", "MambaConfig",
       dict(vocab_size=VOCAB, hidden_size=64, state_size=8, num_hidden_layers=2), ["input_ids"],
       Ids(12, high=VOCAB), fixed=no_cache)
    hf("rwkv", "RwkvForCausalLM", "RwkvConfig",
       dict(vocab_size=VOCAB, hidden_size=64, attention_hidden_size=64, num_hidden_layers=2, context_length=64),
       ["input_ids"], Ids(12, high=VOCAB), fixed=no_cache)

    # Encoder and decoder.
    pair = ["input_ids", "attention_mask", "decoder_input_ids"]
    pair_in = (ids, mask, Ids(12, high=VOCAB, low=5))
    hf("t5", "T5ForConditionalGeneration", "T5Config",
       dict(vocab_size=VOCAB, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4),
       pair, *pair_in, fixed=no_cache)
    hf("t5_gated", "T5ForConditionalGeneration", "T5Config",
       dict(vocab_size=VOCAB, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4,
            feed_forward_proj="gated-gelu", tie_word_embeddings=False), pair, *pair_in, fixed=no_cache)
    seq = dict(vocab_size=VOCAB, d_model=128, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, max_position_embeddings=64)
    hf("bart", "BartForConditionalGeneration", "BartConfig", seq, pair, *pair_in, fixed=no_cache)
    hf("pegasus", "PegasusForConditionalGeneration", "PegasusConfig", seq, pair, *pair_in, fixed=no_cache)
    whisper = dict(vocab_size=VOCAB, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                   decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=20,
                   max_source_positions=50, max_target_positions=32, decoder_start_token_id=3, **tok)
    hf("whisper", "WhisperForConditionalGeneration", "WhisperConfig", whisper,
       ["input_features", "decoder_input_ids"], Floats(20, 100), Ids(12, high=VOCAB, low=5), fixed=no_cache)

    # Audio and vision.
    wav = dict(hidden_size=96, num_hidden_layers=2, num_attention_heads=4, intermediate_size=192, vocab_size=32,
               conv_dim=(32, 32, 32), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_feat_extract_layers=3,
               num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, mask_time_prob=0.0,
               feat_extract_norm="group")
    hf("wav2vec2", "Wav2Vec2ForCTC", "Wav2Vec2Config", wav, ["input_values"], Floats(2000))
    hf("hubert", "HubertModel", "HubertConfig", wav, ["input_values"], Floats(2000))
    vis = dict(image_size=64, patch_size=16, hidden_size=96, num_hidden_layers=2, num_attention_heads=4,
               intermediate_size=192)
    px = ["pixel_values"]
    hf("vit", "ViTForImageClassification", "ViTConfig", vis, px, image())
    hf("beit", "BeitModel", "BeitConfig", dict(vis, use_relative_position_bias=True), px, image())
    hf("dinov2", "Dinov2Model", "Dinov2Config", dict(vis, mlp_ratio=2, patch_size=16), px, image())
    hf("swin", "SwinForImageClassification", "SwinConfig",
       dict(image_size=64, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4), px, image())
    hf("segformer", "SegformerForSemanticSegmentation", "SegformerConfig",
       dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64], decoder_hidden_size=32,
            num_attention_heads=[1, 2, 3, 4]), px, image())
    hf("mobilevit", "MobileViTModel", "MobileViTConfig",
       dict(hidden_sizes=[48, 64, 80], neck_hidden_sizes=[8, 16, 24, 32, 48, 56, 128], num_attention_heads=4,
            mlp_ratio=2.0), px, image())
    hf("clip", "CLIPModel", "CLIPConfig",
       dict(text_config=dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                             num_attention_heads=4, max_position_embeddings=32, eos_token_id=2, bos_token_id=1),
            vision_config=dict(vis, hidden_size=64, num_attention_heads=4, intermediate_size=128),
            projection_dim=48), ["input_ids", "pixel_values", "attention_mask"], ids, image(), mask)
    hf("siglip_vision", "SiglipVisionModel", "SiglipVisionConfig", vis, px, image())
    hf("timesformer", "TimesformerModel", "TimesformerConfig", dict(vis, num_frames=2), px, Floats(2, 3, 64, 64))

    # The published sizes; BERT-mini is the quickstart's transformer.
    hf("bert_mini", "BertModel", "BertConfig",
       dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024), both,
       Ids(64, high=30000, low=5), Mask(64), suite="quickstart", batch=2, alt_batch=1)
    long_ids, long_mask = Ids(128, high=30000, low=5), Mask(128)
    big = dict(suite="full", alt_batch=1)
    hf("gpt2_124m", "GPT2LMHeadModel", "GPT2Config", {}, ["input_ids"], long_ids, fixed=no_cache, **big)
    hf("bert_base", "BertModel", "BertConfig", {}, both, long_ids, long_mask, **big)
    hf("distilbert_base", "DistilBertModel", "DistilBertConfig", {}, both, long_ids, long_mask, **big)
    hf("t5_small", "T5ForConditionalGeneration", "T5Config", {}, pair, long_ids, long_mask,
       Ids(32, high=30000, low=5), fixed=no_cache, **big)
    hf("llama_125m", "LlamaForCausalLM", "LlamaConfig",
       dict(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
            num_key_value_heads=4, max_position_embeddings=2048), ["input_ids"], long_ids, fixed=no_cache, **big)
    hf("whisper_tiny", "WhisperForConditionalGeneration", "WhisperConfig",
       dict(d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
            encoder_ffn_dim=1536, decoder_ffn_dim=1536), ["input_features", "decoder_input_ids"],
       Floats(80, 3000), Ids(32, high=50000, low=5), fixed=no_cache, **big)
