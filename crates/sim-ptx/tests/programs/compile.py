"""Compiles the CUDA sources of this folder to the PTX beside them.

    pip install nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.88
    python compile.py NAME.cu ...

The tests need only the PTX, which is part of the repository. It was made by NVRTC
13.0.88 for compute_90 with line numbers; of the source's path only the name is kept.
"""
import ctypes
import glob
import os
import re
import site
import sys


def find(pattern):
    for folder in site.getsitepackages() + [site.getusersitepackages()]:
        for path in glob.glob(os.path.join(folder, "nvidia", "**", pattern), recursive=True):
            return path
    sys.exit(f"{pattern} not found: pip install nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.88")


def compile_file(nvrtc, include, path):
    program = ctypes.c_void_p()
    source = open(path, "rb").read()
    name = os.path.basename(path)
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None)
    options = ["--gpu-architecture=compute_90", "-lineinfo", "-no-cache", f"-I{include}"]
    array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    size = ctypes.c_size_t()
    if nvrtc.nvrtcCompileProgram(program, len(options), array):
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    text = re.sub(r'(\.file\s+\d+ )"[^"]*/([^"/]*)"', r'\1"\2"', ptx.value.decode())
    open(path[:-3] + ".ptx", "w").write(text)


def main():
    ctypes.CDLL(find("libnvrtc-builtins.so.13.0"), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(find("libnvrtc.so.13"))
    include = os.path.dirname(find("cuda_fp16.h"))
    for path in sys.argv[1:]:
        compile_file(nvrtc, include, path)


main()
