"""Models of timm, reduced in depth or width where the published size is large."""
from torch import nn

from zoo.registry import add
from zoo.torchvision_models import image


def register_timm():
    def tm(arch, size=64, **kw):
        def build():
            import timm
            return timm.create_model(arch, pretrained=False, num_classes=10, **kw)
        add("timm_" + arch, "timm", build, image(size))

    def cls(name, module, kind, size, **kw):
        """A model class with arguments of our own, where create_model fixes them.
        Strings name other things of the same module."""
        def build():
            import importlib
            m = importlib.import_module("timm.models." + module)
            def named(v):
                return getattr(m, v) if isinstance(v, str) else [named(x) for x in v] if (
                    isinstance(v, tuple) and isinstance(v[0], str)) else v
            return getattr(m, kind)(num_classes=10, **{k: named(v) for k, v in kw.items()})
        add("timm_" + name, "timm", build, image(size))

    def attention(name, layer, **kw):
        """A short ResNet with one of byobnet's attention layers in its second stage."""
        def build():
            from timm.models.byobnet import ByobNet, ByoBlockCfg, ByoModelCfg
            return ByobNet(ByoModelCfg(
                blocks=(ByoBlockCfg(type="bottle", d=1, c=64, s=1, gs=0, br=0.25),
                        ByoBlockCfg(type="self_attn", d=2, c=128, s=2, gs=0, br=0.25)),
                stem_chs=32, stem_type="7x7", stem_pool="maxpool", fixed_input_size=layer == "bottleneck",
                self_attn_layer=layer, self_attn_kwargs=kw), num_classes=10, img_size=64)
        add("timm_" + name, "timm", build, image(64))

    tm("vit_tiny_patch16_224", 96, img_size=96, depth=3)
    tm("deit_tiny_distilled_patch16_224", 96, img_size=96, depth=3)
    tm("eva02_tiny_patch14_224", 56, img_size=56, depth=3)
    cls("mixer", "mlp_mixer", "MlpMixer", 64, img_size=64, patch_size=8, num_blocks=2, embed_dim=128)
    cls("resmlp", "mlp_mixer", "MlpMixer", 64, img_size=64, patch_size=8, num_blocks=3, embed_dim=128,
        mlp_ratio=4, block_layer="ResBlock", norm_layer="Affine")
    cls("gmlp", "mlp_mixer", "MlpMixer", 64, img_size=64, patch_size=8, num_blocks=4, embed_dim=128,
        mlp_ratio=6, block_layer="SpatialGatingBlock", mlp_layer="GatedMlp")
    tm("coat_lite_tiny", 64, img_size=64)
    cls("poolformer", "metaformer", "MetaFormer", 64, depths=(1, 1, 2, 1), dims=(32, 64, 96, 128),
        downsample_norm=None, mlp_act=nn.GELU, mlp_bias=True, norm_layers="GroupNorm1",
        layer_scale_init_values=1e-5, res_scale_init_values=None, use_mlp_head=False)
    cls("convformer", "metaformer", "MetaFormer", 64, depths=(1, 1, 2, 1), dims=(32, 64, 96, 128),
        token_mixers=("SepConv", "SepConv", "Attention", "Attention"), 
        norm_layers=("LayerNorm2dNoBias", "LayerNorm2dNoBias", "LayerNormNoBias", "LayerNormNoBias"))
    tm("ghostnet_050")
    tm("levit_128s", 224, embed_dim=(64, 96, 128), num_heads=(2, 3, 4), key_dim=16, depth=(1, 1, 1))
    tm("pit_ti_224", 224)
    tm("xcit_nano_12_p16_224", 64, depth=3)
    tm("cait_xxs24_224", 64, img_size=64, depth=3)
    tm("convit_tiny", 64, img_size=64, depth=3, local_up_to_layer=2)
    cls("crossvit", "crossvit", "CrossVit", 120, img_size=120, img_scale=(1.0, 112 / 120), patch_size=(12, 16),
        embed_dim=(48, 96), depth=((1, 2, 0), (1, 2, 0)), num_heads=(3, 3), mlp_ratio=(4, 4, 1))
    tm("tinynet_e", 64)
    cls("convmixer", "convmixer", "ConvMixer", 56, dim=128, depth=4, kernel_size=7, patch_size=7)
    tm("efficientformer_l1", 224, depths=(1, 1, 2, 1))
    tm("efficientformerv2_s0", 224)
    tm("mobilevit_xxs", 64)
    tm("mobilevitv2_050", 64)
    tm("edgenext_xx_small", 64)
    tm("fastvit_t8", 64)
    tm("mobileone_s0", 64)
    tm("lcnet_050", 64)
    tm("rexnet_100", 64)
    tm("dla46x_c", 64)
    tm("resnet10t", 64)
    tm("pvt_v2_b0", 64)
    tm("inception_next_atto", 64)
    tm("convnextv2_atto", 64)
    tm("repvit_m0_9", 64)
    tm("starnet_s1", 64)
    tm("hgnetv2_b0", 64)
    tm("ese_vovnet19b_dw", 64)
    tm("regnetx_002", 64)
    tm("efficientvit_m0", 224)
    tm("efficientvit_b0", 64)
    tm("shvit_s1", 224)
    tm("mobilenetv4_conv_small", 64)
    tm("semnasnet_075", 64)
    attention("halonet", "halo", block_size=4, halo_size=2)
    attention("lambda_resnet", "lambda", r=5)
    attention("botnet", "bottleneck")
    tm("nf_regnet_b0", 64, depths=(1, 1, 2, 1), channels=(24, 32, 64, 96), num_features=160)
    cls("gcvit", "gcvit", "GlobalContextVit", 64, img_size=64, depths=(1, 1, 1, 1), num_heads=(2, 2, 4, 4),
        embed_dim=32)
    tm("maxvit_rmlp_pico_rw_256", 64, img_size=64, embed_dim=(32, 64, 96, 128), depths=(1, 1, 1, 1))
