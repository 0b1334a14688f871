"""Contract tests of the laptop stack: each states AWS's behaviour that a supplement brings to the emulator."""
