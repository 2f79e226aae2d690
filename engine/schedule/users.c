// SPDX-License-Identifier: MIT
#include "engine/schedule/users.h"

int32_t schedule_users_enter(schedule_users *users, uint64_t owner)
{
    int32_t place = -1;
    int64_t least = -1;
    for (int32_t i = 0; i < users->room; i++) {
        schedule_user *user = &users->list[i];
        if (user->requests == 0) {
            place = place < 0 ? i : place;
            continue;
        }
        if (user->owner == owner) {
            user->requests++;
            return i;
        }
        least = least < 0 || user->served < least ? user->served : least;
    }
    users->list[place] = (schedule_user){owner, least < 0 ? 0 : least, 1};
    return place;
}

void schedule_users_leave(schedule_users *users, int32_t user)
{
    users->list[user].requests--;
}
