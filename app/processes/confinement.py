"""What a process that reads an upload can reach: its channel, its file, and code. Nothing else.

A decoder that has been taken over runs as the service's own user. So before the first byte is
read, and before there is a second thread, the process gives up what reading does not take:

- *Landlock* (Linux 5.13): files by name. It may read the interpreter, the libraries, the time zones
  and the file that it was given, and open no other. It writes, makes and removes nothing, and from
  newer kernels on it opens no TCP connection and signals no one outside.
- *seccomp* (x86-64 and ARM): system calls. No sockets, no other program or process, no change of a
  file, also not by a descriptor that is open already, none of another process.
- *no_new_privs*: no program that it could start would have more rights.

A kernel, or a container's own filter, may lack one of the first two. :func:`lacking` names it: the
start says so in the log, and the other one holds alone.

*Reference.* Landlock's ``struct landlock_ruleset_attr`` and ``landlock_path_beneath_attr``; classic
BPF over ``struct seccomp_data`` (seccomp(2)). System calls are numbered as in Linux' ``unistd.h``.
"""

from __future__ import annotations

import ctypes
import logging
import mimetypes
import os
import platform
import stat
import struct
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_LOG = logging.getLogger(__name__)

_PR_GET_SECCOMP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 21, 22, 38
_SECCOMP_MODE_FILTER = 2

# Landlock: its calls have these numbers on all machines, and its rights came one after the other.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULESET_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_RIGHTS_TO_FILES = {1: 13, 2: 14, 3: 15, 5: 16}  # by version: how many rights there are
_TCP_SINCE, _SCOPES_SINCE = 4, 6

_SYSTEM_FILES = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache",
    "/usr/share/zoneinfo", "/etc/localtime", "/dev/urandom", "/proc/self", "/proc/meminfo",
    "/proc/cpuinfo", "/proc/sys/vm", "/sys/devices/system/cpu", "/sys/fs/cgroup",
)  # fmt: skip
"""What libraries read of the system: themselves, time zones, and how large the machine is."""

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By machine: its place in the table below, and what the kernel calls it."""
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # sockets other than those that it was given
    "socket": (41, 198), "bind": (49, 200), "listen": (50, 201), "connect": (42, 203),
    "accept": (43, 202), "accept4": (288, 242),
    # other programs and processes
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    # files by name, and their content
    "creat": (85, None), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276), "mkdir": (83, None),
    "mkdirat": (258, 34), "rmdir": (84, None), "link": (86, None), "linkat": (265, 37),
    "unlink": (87, None), "unlinkat": (263, 35), "symlink": (88, None), "symlinkat": (266, 36),
    "mknod": (133, None), "mknodat": (259, 33),
    # what is known of files
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    # memory and messages that others share
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "msgsnd": (69, 189),
    "semget": (64, 190), "mq_open": (240, 180),
    # file systems and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    "quotactl": (179, 60), "fanotify_init": (300, 262), "swapon": (167, 224),
    "swapoff": (168, 225),
    # how other processes run
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    # the kernel
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "syslog": (103, 116), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, None), "ioperm": (173, None), "personality": (135, 92),
}  # fmt: skip
"""System calls that a reader has no use for, as x86-64 and ARM number them."""
_OPEN, _OPENAT, _CLONE = (2, None), (257, 56), (56, 220)
_TO_ONE = {"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131)}
_PRLIMIT = (302, 261)
_UNREADABLE_ARGUMENTS = {"clone3": (435, 435), "openat2": (437, 437)}
"""Their flags are in memory, which a filter does not see. Libraries fall back to the older ones."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CLONE_THREAD = 0x10000
_OTHER_ABI = 0x40000000  # of x86-64: calls of 32-bit programs, with numbers of their own

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def lacking() -> Sequence[str]:
    """Return what of the confinement this system does not have: "Landlock", "seccomp"."""
    found = []
    if _landlock_version() < 1:
        found.append("Landlock")
    if not _has_seccomp():
        found.append("seccomp")
    return found


def warn_of_what_is_lacking() -> None:
    """Say in the log what a taken-over reader of uploads could do on this system."""
    missing = lacking()
    if "Landlock" in missing:
        _LOG.warning(
            "this system lacks Landlock: a decoder that an upload has taken over could read every "
            "file that the service may read, the ledger too"
        )
    if "seccomp" in missing:
        _LOG.warning(
            "this system lacks seccomp: a decoder that an upload has taken over could start "
            "programs, signal processes, and open connections on older kernels"
        )


def confine_reader(descriptors: Sequence[int]) -> None:
    """Give up everything but reading these descriptors and code, for good; see this module.

    It holds for this thread and those that it starts: call it while there is no other.

    Parameters
    ----------
    descriptors
        What the process was given. A regular file may also be opened again by its descriptor.

    Raises
    ------
    OSError
        The system has it and refuses it: the process must not go on.
    """
    libc = _libc()
    if libc is None:
        return
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if (version := _landlock_version()) >= 1:
        _restrict_files(libc, version, descriptors)
    if _has_seccomp():
        _filter_calls(libc)


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _checked(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


# Landlock


def _landlock_version() -> int:
    """Return the version of Landlock's interface, 0 or less where there is none."""
    libc = _libc()
    if libc is None:
        return 0
    asked = (_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_RULESET_VERSION))
    return int(libc.syscall(*asked))


def _restrict_files(libc: ctypes.CDLL, version: int, descriptors: Sequence[int]) -> None:
    rights = (1 << max(n for since, n in _RIGHTS_TO_FILES.items() if since <= version)) - 1
    handled = [rights]
    if version >= _TCP_SINCE:
        handled.append(0b11)  # to bind and to connect
    if version >= _SCOPES_SINCE:
        handled.append(0b11)  # abstract sockets and signals: to no process outside
    attributes = (ctypes.c_uint64 * len(handled))(*handled)
    rules = _checked(
        libc.syscall(
            _CREATE_RULESET,
            attributes,
            ctypes.c_size_t(ctypes.sizeof(attributes)),
            ctypes.c_uint32(0),
        )
    )
    for place in _readable():
        with suppress(FileNotFoundError, PermissionError):
            opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
            try:
                _allow(libc, rules, opened)
            finally:
                os.close(opened)
    for each in descriptors:
        if stat.S_ISREG(os.fstat(each).st_mode):
            _allow(libc, rules, each)
    _checked(libc.syscall(_RESTRICT_SELF, rules, ctypes.c_uint32(0)))
    os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, place: int) -> None:
    """Let a file, or everything below a directory, be read."""
    rights = _READ_FILE
    if stat.S_ISDIR(os.fstat(place).st_mode):
        rights |= _READ_DIR
    beneath = struct.pack("=Qi", rights, place)
    _checked(libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, beneath, ctypes.c_uint32(0)))


def _readable() -> Iterator[str]:
    """Yield where code is, and what it reads of the system.

    Of a checkout its packages and not its root: a data directory may lie next to them.
    """
    yield from _SYSTEM_FILES
    yield from map(str, mimetypes.knownfiles)  # the reader of workbooks has them looked at
    yield from {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    yield str(Path(sys.base_prefix) / "lib")
    for package in ("app", "mechanisms"):
        yield from sys.modules[package].__path__ if package in sys.modules else ()


# seccomp


def _has_seccomp() -> bool:
    libc = _libc()
    if libc is None or platform.machine() not in MACHINES:
        return False
    return int(libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0)) >= 0


def _filter_calls(libc: ctypes.CDLL) -> None:
    code = program_for(*MACHINES[platform.machine()], own=os.getpid())
    program = _Program(len(code) // 8, code)
    wanted = (_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(program))
    _checked(libc.prctl(*wanted, ctypes.c_ulong(0), ctypes.c_ulong(0)))


def program_for(place: int, machine: int, *, own: int) -> bytes:
    """Return the filter: refuse the calls of the table, look at the arguments of a few."""
    no = (_RETURN, 0, 0, _ERRNO | _EPERM)
    steps = [
        (_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, machine), no,
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _OTHER_ABI), no,
    ]  # fmt: skip
    for numbers in REFUSED.values():
        if (number := numbers[place]) is not None:
            steps += [(_EQUAL, 0, 1, number), no]
    for numbers in _UNREADABLE_ARGUMENTS.values():
        steps += [(_EQUAL, 0, 1, numbers[place]), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    # jumps: to the refusal, which is next, or over it
    looked_at = [
        (_OPEN[place], 1, (_ANY_BIT, 0, 1, _WRITES)),
        (_OPENAT[place], 2, (_ANY_BIT, 0, 1, _WRITES)),
        (_CLONE[place], 0, (_ANY_BIT, 1, 0, _CLONE_THREAD)),
        (_PRLIMIT[place], 0, (_EQUAL, 1, 0, 0)),  # its own
        *((each[place], 0, (_EQUAL, 1, 0, own)) for each in _TO_ONE.values()),
    ]
    for number, argument, test in looked_at:
        if number is not None:
            steps += [
                (_EQUAL, 0, 4, number), (_LOAD, 0, 0, _ARGUMENTS + 8 * argument), test, no,
                (_RETURN, 0, 0, _ALLOW),
            ]  # fmt: skip
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
