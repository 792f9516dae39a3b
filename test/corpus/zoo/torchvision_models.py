"""Models of torchvision: small ones of many architectures, and some of published size."""
import collections

from torch import nn

from zoo.registry import Flat, Floats, add


def image(size=64):
    return Floats(3, size, size)


def register_torchvision():
    def tv(name, build, *inputs, **kw):
        add("tv_" + name, "torchvision", build, *(inputs or (image(),)), **kw)

    def models():
        import torchvision.models as m
        return m

    def plain(fn, **kw):
        return lambda: getattr(models(), fn)(weights=None, **kw)

    def resnet10():
        from torchvision.models.resnet import BasicBlock, ResNet
        return ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10)

    def resnext_bottleneck():
        from torchvision.models.resnet import Bottleneck, ResNet
        return ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10, groups=8, width_per_group=8)

    def vgg_small():
        from torchvision.models.vgg import VGG, make_layers
        net = VGG(make_layers([16, "M", 32, "M", 64, 64, "M"], batch_norm=True), num_classes=10)
        net.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        net.classifier = nn.Sequential(nn.Linear(256, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 10))
        return net

    def densenet_small():
        from torchvision.models.densenet import DenseNet
        return DenseNet(growth_rate=16, block_config=(2, 4, 4, 2), num_init_features=32, num_classes=10)

    def swin_small(version):
        def build():
            from torchvision.models import swin_transformer as s
            extra = {} if version == 1 else {"block": s.SwinTransformerBlockV2,
                                             "downsample_layer": s.PatchMergingV2}
            return s.SwinTransformer(patch_size=[4, 4], embed_dim=48, depths=[2, 2, 2],
                                     num_heads=[2, 4, 8], window_size=[4, 4],
                                     stochastic_depth_prob=0.1, num_classes=10, **extra)
        return build

    def convnext_small():
        from torchvision.models.convnext import CNBlockConfig, ConvNeXt
        return ConvNeXt([CNBlockConfig(32, 64, 1), CNBlockConfig(64, 128, 1),
                         CNBlockConfig(128, 256, 2), CNBlockConfig(256, None, 1)], num_classes=10)

    def vit_small():
        from torchvision.models import VisionTransformer
        return VisionTransformer(image_size=64, patch_size=8, num_layers=3, num_heads=3, hidden_dim=96,
                                 mlp_dim=192, num_classes=10)

    def maxvit_small():
        from torchvision.models import MaxVit
        return MaxVit(input_size=(64, 64), stem_channels=16, partition_size=4, block_channels=[16, 32],
                      block_layers=[1, 1], head_dim=8, stochastic_depth_prob=0.1, num_classes=10)

    def swin3d_small():
        from torchvision.models.video.swin_transformer import SwinTransformer3d
        return SwinTransformer3d(patch_size=[2, 4, 4], embed_dim=24, depths=[2, 2], num_heads=[2, 4],
                                 window_size=[2, 4, 4], num_classes=10)

    def video_resnet():
        from torchvision.models.video import resnet as r
        return nn.Sequential(collections.OrderedDict(
            stem=r.R2Plus1dStem(), block=r.BasicBlock(64, 64, r.Conv2Plus1D),
            pool=nn.AdaptiveAvgPool3d(1), flat=nn.Flatten(), head=nn.Linear(64, 10)))

    def segmentation():
        return Flat(models().segmentation.lraspp_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=5), pick=["out"])

    def raft():
        return Flat(models().optical_flow.raft_small(weights=None), num_flow_updates=2)

    tv("resnet10", resnet10)
    tv("resnext10", resnext_bottleneck)
    tv("mobilenet_v2", plain("mobilenet_v2", num_classes=10))
    tv("mobilenet_v3_small", plain("mobilenet_v3_small", num_classes=10))
    tv("squeezenet1_1", plain("squeezenet1_1", num_classes=10))
    tv("shufflenet_v2_x0_5", plain("shufflenet_v2_x0_5", num_classes=10))
    tv("mnasnet0_5", plain("mnasnet0_5", num_classes=10))
    tv("googlenet", plain("googlenet", num_classes=10, aux_logits=False, init_weights=False), image(96))
    tv("vgg_small_bn", vgg_small)
    tv("densenet_small", densenet_small)
    tv("efficientnet_b0", plain("efficientnet_b0", num_classes=10))
    tv("regnet_y_400mf", plain("regnet_y_400mf", num_classes=10))
    tv("swin_small", swin_small(1))
    tv("swin_v2_small", swin_small(2))
    tv("convnext_small", convnext_small)
    tv("vit_small", vit_small)
    tv("maxvit_small", maxvit_small)
    tv("swin3d_small", swin3d_small, Floats(3, 4, 32, 32))
    tv("r2plus1d_small", video_resnet, Floats(3, 4, 32, 32))
    tv("lraspp_mobilenet_v3", segmentation, image(96))
    tv("raft_small", raft, image(128), image(128))

    tv("resnet18", plain("resnet18"), image(224), suite="quickstart", batch=1, alt_batch=2)
    for name, fn in (("resnet50", "resnet50"), ("vit_b_16", "vit_b_16"), ("full_mobilenet_v2", "mobilenet_v2"),
                     ("full_efficientnet_b0", "efficientnet_b0"), ("convnext_tiny", "convnext_tiny"),
                     ("swin_t", "swin_t")):
        tv(name, plain(fn), image(224), suite="full", alt_batch=1)
