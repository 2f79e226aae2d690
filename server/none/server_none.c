// SPDX-License-Identifier: MIT
// A build without libmicrohttpd.
#include "server/server.h"

bool server_available(void)
{
    return false;
}

bool server_run(const server_options *options, engine_error *err)
{
    (void)options;
    return engine_fail(err, "this build has no server: install libmicrohttpd (Debian: "
                            "libmicrohttpd-dev) and build weft again");
}
