"""The launcher: the emulator in this process, with what AWS does and it does not. One module a subject."""
