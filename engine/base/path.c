// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "engine/base/path.h"

#include <errno.h>
#include <sys/stat.h>

bool path_takes_a_file(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode))
        return true;
    errno = S_ISDIR(about.st_mode) ? EISDIR : EEXIST;
    return false;
}
