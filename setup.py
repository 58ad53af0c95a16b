"""The loops that are compiled where there is a compiler; all else is in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "kubesched.framework.engine._compiled",
            ["src/kubesched/framework/engine/_compiled.c"],
            # Fused operations would round once where the reference rounds twice.
            extra_compile_args=["-O3", "-ffp-contract=off"],
            optional=True,
        )
    ]
)
