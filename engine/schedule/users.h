// SPDX-License-Identifier: MIT
#ifndef ENGINE_SCHEDULE_USERS_H
#define ENGINE_SCHEDULE_USERS_H

// How much has been done for each user, while something is to be done. Who comes, or comes again, counts as
// served as much as the least of those that are there: nobody saves up turns.

#include <stdbool.h>
#include <stdint.h>

typedef struct schedule_user {
    uint64_t owner;
    int64_t served;   // tokens
    int32_t requests; // 0: the place is free
} schedule_user;

typedef struct schedule_users {
    schedule_user *list; // [room]
    int32_t room;        // at least as many as there are requests
} schedule_users;

// One request more of the user, whose place it returns; one less.
int32_t schedule_users_enter(schedule_users *users, uint64_t owner);
void schedule_users_leave(schedule_users *users, int32_t user);

#endif
