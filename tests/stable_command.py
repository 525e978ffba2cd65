"""The body of a command in a folder of ``stable.commands``: a fork does what the command is called for.

Run by an interpreter without site packages, in a tenth of the time that the command itself would load.
"""

import json
import os
import socket
import struct
import sys

NUMBER = struct.Struct("!i")


def main(words):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.environ["STABLE_ADDRESS"])
        asked = json.dumps([words, os.getcwd(), dict(os.environ), False]).encode()  # noqa: PTH109 - pathlib takes longer to load
        socket.send_fds(line, [NUMBER.pack(len(asked))], [0, 1, 2])
        line.sendall(asked)
        line.recv(NUMBER.size, socket.MSG_WAITALL)  # its process id
        code = NUMBER.unpack(line.recv(NUMBER.size, socket.MSG_WAITALL))[0]
    sys.exit(code if code >= 0 else 128 - code)


main([*FIRST, *sys.argv[1:]])  # noqa: F821 - the line above it in the command
