// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H

double engine_seconds(void); // of a clock that only goes on

#endif
