"""How perf/compare starts PyTorch and JAX: in which modes, with how many compilers, and what it refuses. No peer is
installed."""

import os
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "perf", "peers"))

from device import Device
from jax_peer import Jax, find_jax
from processes import Refused
from pytorch import GPU_MODES, PyTorch


class Peers(unittest.TestCase):
    def test_on_a_gpu_pytorch_is_compiled_by_several_in_three_modes(self):
        def pytorch(device, mode, threads):
            with mock.patch("shutil.which", lambda _: "g++"):
                return PyTorch("python", "net", 8, threads, 0.1, mode, "cache", 7, Device(device, "bf16"))
        for device, threads, compilers in (("gpu", 16, "12"), ("gpu", 4, "4"), ("cpu", 16, "1")):
            self.assertEqual(pytorch(device, "nhwc-compile", threads).environment["TORCHINDUCTOR_COMPILE_THREADS"],
                             compilers)
        self.assertEqual(GPU_MODES, ("nhwc-eager", "nhwc-compile", "nhwc-autotune"))
        for mode, compiles in zip(GPU_MODES, (False, True, True)):
            contender = pytorch("gpu", mode, 4)
            self.assertEqual(contender.compiles, compiles)
            self.assertIn("bf16", contender.command)
        with self.assertRaises(Refused):
            pytorch("cpu", "nhwc-autotune", 4)

    def test_jax_is_found_only_where_it_is(self):
        self.assertIsNone(find_jax("false", wanted=False))
        with self.assertRaises(Refused):
            find_jax("false", wanted=True)
        self.assertEqual(Jax("python", "net", 8, 4, 0.1, 7, Device("gpu", "bf16")).environment["JAX_PLATFORMS"], "cuda")


if __name__ == "__main__":
    unittest.main()
