/*
 * Epochs of live and deferred views (docs/protocols/following.md): batches that any node may do, twice or by
 * halves, over commits that are read from the memory of the nodes or from their logs.
 *
 * A group has one row, which is changed by compare-and-set: the snapshot `as_of` that its views show, and
 * the end of the batch under way. Members 0 and 1 are keepers: each does batches whenever it can, also
 * both at once, since the division of work is no agreement. Member 2 joins if CONFIGURATION is 1. Up to three
 * commits, at any member, change two rows of a view. A commit is logged, and then applied: from then on it is
 * in the store and in the ring of its member. One ring may forget.
 *
 * A keeper looks at the group's row, takes a snapshot as the end of a new batch, records it, gathers the
 * changes, puts the rows that differ at that snapshot, and finishes. It gathers before or after it records,
 * but puts only afterwards. A killed keeper's puts that were under way may still land. A suspected one goes
 * on as a zombie, with the assignment that it has observed last.
 *
 * Checked: by assertions, over every interleaving, and for states without successors.
 *   WHOLE      the changes that a batch applies are the commits between its beginning and its end
 *   EQUAL      all processes that do a batch put the same rows
 *   TOTAL      at each snapshot that the group has shown, the rows are those of the commits at or below it:
 *              each batch has its effect once, and readers get nothing of an unfinished one
 *   NOT STUCK  where nothing can happen any more, no batch is under way, and the last snapshot is shown
 *
 * Left out, and why that is sound for these properties:
 * - Locks: they do not matter for what a commit adds. Rows that are read to compute a batch are read at
 *   `as_of`, and those of relations at `upto`: both are snapshots (commit.pml).
 * - The agreement on deaths and joins: locks.pml. Here a death is one version of the assignment, its
 *   recovery another one; both are observed by each keeper at a time of its own.
 * - Purges, and the dropping of segments: what a group needs is held (`GroupState.needed`).
 * - Builds of views: rows of a new view are those of its batch's end alone.
 * - Which segments of a log hold what: segments are sealed when a member is asked, so that they have all that
 *   it has logged until then.
 *
 * Broken variants, each by a -D: MEMBER_NOT_ASKED, FORGOTTEN_NOT_SAID, DEAD_NOT_HEEDED, CLOCK_NOT_COMPARED,
 * MEMBERS_READ_EARLY, DEAD_LOG_LEFT_OUT, BEGUN_AGAIN, BEGUN_UNCOMPARED, PUT_UNRECORDED, ADDED_TO_NEWEST,
 * FINISHED_EARLY, ENDED_BY_ANOTHER.
 */

#ifndef LAST_SNAPSHOT
#define LAST_SNAPSHOT 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef COMMITS
#define COMMITS 2
#endif
#ifndef CONFIGURATION
#define CONFIGURATION 0         /* 1: member 2 joins */
#endif

#define KEEPERS 2
#define MEMBERS 3
#define JOINER 2
#define NOBODY 15
#define ABSENT 100              /* no version of a row */

/* A commit: IDLE, LOGGED, APPLIED. */
#define IDLE 0
#define LOGGED 1
#define APPLIED 2
byte state[3];
byte home[3] = NOBODY;
byte ts[3];

/* Members. `since`: the ring has the commits above. */
bool alive[MEMBERS];
bool session[MEMBERS];
bool fenced[MEMBERS];
bool commits[MEMBERS];
byte last[MEMBERS];
byte since[MEMBERS];
bool has_forgotten;
byte crashes;

/* The assignment, and what each keeper has observed of it. Masks of members. */
byte members, dead, clock;
byte known_members[KEEPERS], known_dead[KEEPERS], known_clock[KEEPERS];
byte acknowledged;              /* the keepers that have acknowledged that member 2 joins */

/* The group's row. `batch` 0: none is under way. */
byte as_of, batch, version;
byte shown = 1;                 /* the snapshots that the group has shown, a mask */

/* The two rows of the view, by snapshot. */
byte row[6] = ABSENT;

/* A keeper. */
#define REST 0
#define SNAPSHOT 1
#define GATHER 2
#define ASK 3
#define LOGS 4
#define PUT 5
#define FINISH 6
byte step[KEEPERS];
byte from[KEEPERS], upto[KEEPERS], compared[KEEPERS];
bool recorded[KEEPERS];
byte others[KEEPERS];           /* those that are still to be asked, a mask */
byte got[KEEPERS];              /* the gathered commits, a mask */
byte put[KEEPERS];              /* the rows that are put, a mask */

byte i, value, expected, under;

#define bit(x) (1 << (x))
#define has(mask, x) (((mask) & bit(x)) != 0)
#define with(mask, x) ((mask) | bit(x))
#define without(mask, x) ((mask) & ~bit(x))
#define raise(what, to) if :: what < (to) -> what = to :: else fi
#define all(p, x) (p(0, x) && p(1, x) && p(2, x))
#define any(p, x) (p(0, x) || p(1, x) || p(2, x))

/* ---------------------------------------------------------------- commits */

#define in_flight(c, m) (home[c] == (m) && state[c] == LOGGED)
#define is_between(c, k) (state[c] != IDLE && ts[c] > from[k] && ts[c] <= upto[k])
#define holds(c, k) ((home[c] == i && is_between(c, k)) -> bit(c) : 0)
/* The commits of member `i` that belong to the batch of keeper k. */
#define commits_of(k) (holds(0, k) | holds(1, k) | holds(2, k))
#define belongs(c, k) (is_between(c, k) -> bit(c) : 0)
#define wanted(k) (belongs(0, k) | belongs(1, k) | belongs(2, k))

#define may_append(m) (alive[m] && commits[m] && !fenced[m])
#define at_member(m) may_append(m) -> home[c] = m

proctype Commit(byte c)
{
    atomic {
        (c == 0 || state[c - 1] != IDLE);
        if :: at_member(0) :: at_member(1) :: at_member(2) fi;
        last[home[c]] = last[home[c]] + 1;
        ts[c] = last[home[c]];
        state[c] = LOGGED;
        printf("member %d: logs commit %d at %d\n", home[c], c, ts[c])
    };
end_apply:
    atomic {
        state[c] == APPLIED || alive[home[c]] && !fenced[home[c]];
        state[c] = APPLIED;
        printf("member %d: applies commit %d\n", home[c], c)
    };
end_forget:
    atomic {
        !has_forgotten && since[home[c]] < ts[c];
        has_forgotten = true;
        since[home[c]] = ts[c];
        printf("member %d: its ring begins above %d\n", home[c], ts[c])
    }
}

/* ---------------------------------------------------------------- watermarks and snapshots */

#define blocks(c, m, s) (in_flight(c, m) && ts[c] <= (s))
#define is_blocked(m, s) (blocks(0, m, s) || blocks(1, m, s) || blocks(2, m, s))
/* An idle member moves its clock on, as far as its log takes a reservation. */
#define reaches(m, s) (!is_blocked(m, s) && (last[m] >= (s) || alive[m] && !fenced[m]))
#define counts(k, m) (has(known_members[k] | known_dead[k], m))
#define permits(k, m, s) (!counts(k, m) || reaches(m, s))
#define may_take(k, s) ((s) <= LAST_SNAPSHOT && permits(k, 0, s) && permits(k, 1, s) && permits(k, 2, s))
#define follow(k, m, s) if :: counts(k, m) -> raise(last[m], s) :: else fi
inline take(k, s)
{
    upto[k] = s;
    follow(k, 0, s); follow(k, 1, s); follow(k, 2, s);
    printf("keeper %d: takes snapshot %d as the end of a batch after %d\n", k, upto[k], from[k])
}

/* ---------------------------------------------------------------- the rows */

#define delta(c, r) ((r) == 0 -> ((c) == 0 -> 1 : ((c) == 1 -> -1 : 0)) : ((c) == 0 -> 0 : (c)))
#define added(c, r, mask) (has(mask, c) -> delta(c, r) : 0)
#define sum(r, mask) (added(0, r, mask) + added(1, r, mask) + added(2, r, mask))
#define cell(r, s) row[3 * (r) + (s) - 1]
#define stored(r, s) ((s) > 2 && cell(r, 3) != ABSENT -> cell(r, 3) : \
    ((s) > 1 && cell(r, 2) != ABSENT -> cell(r, 2) : \
    ((s) > 0 && cell(r, 1) != ABSENT -> cell(r, 1) : 10)))
#define is_in(c, s) (state[c] != IDLE && ts[c] <= (s) -> bit(c) : 0)
#define right(r, s) (10 + sum(r, (is_in(0, s) | is_in(1, s) | is_in(2, s))))
#define is_right(s) (!has(shown, s) || stored(0, s) == right(0, s) && stored(1, s) == right(1, s))
#define require_right() \
    if :: is_right(0) && is_right(1) && is_right(2) && is_right(3) :: else -> \
        printf("TOTAL: at a snapshot that was shown, the rows are not those of its commits\n"); \
        assert(false) fi
#define require_whole(k) \
    if :: got[k] == wanted(k) :: else -> \
        printf("WHOLE: commits %d (mask) are gathered, not %d\n", got[k], wanted(k)); \
        assert(false) fi

#ifdef ADDED_TO_NEWEST
#define base(k, r) stored(r, upto[k])
#else
#define base(k, r) stored(r, from[k])
#endif
#ifdef PUT_UNRECORDED
#define may_put(k, r) (step[k] == PUT && !has(put[k], r))
#else
#define may_put(k, r) (step[k] == PUT && recorded[k] && !has(put[k], r))
#endif

inline put_row(k, r)
{
    value = base(k, r) + sum(r, got[k]);
    put[k] = with(put[k], r);
    if
    :: value == stored(r, from[k])
    :: else ->
        printf("keeper %d: puts row %d at %d\n", k, r, upto[k]);
        if :: cell(r, upto[k]) == ABSENT || cell(r, upto[k]) == value :: else ->
            printf("EQUAL: row %d gets two values at %d\n", r, upto[k]); assert(false) fi;
        cell(r, upto[k]) = value;
        require_right()
    fi;
    value = 0
}

/* ---------------------------------------------------------------- a keeper */

inline rest(k)
{
    step[k] = REST; from[k] = 0; upto[k] = 0; compared[k] = 0; recorded[k] = false;
    others[k] = 0; got[k] = 0; put[k] = 0
}

#ifdef BEGUN_AGAIN
#define under_way false
#else
#define under_way (batch != 0)
#endif
inline look(k)
{
    from[k] = as_of;
    compared[k] = version;
#ifdef MEMBERS_READ_EARLY
    others[k] = without(known_members[k], k);
#endif
    if
    :: under_way -> upto[k] = batch; recorded[k] = true; step[k] = GATHER;
        printf("keeper %d: finds the batch to %d under way\n", k, batch)
    :: else -> step[k] = SNAPSHOT
    fi
}

#ifdef BEGUN_UNCOMPARED
#define is_unchanged(k) true
#else
#define is_unchanged(k) (version == compared[k])
#endif
inline record(k)
{
    if
    :: is_unchanged(k) ->
        batch = upto[k]; version++; recorded[k] = true; compared[k] = 0;
        printf("keeper %d: records the batch to %d\n", k, upto[k])
    :: else -> rest(k); printf("keeper %d: another one has changed the group's row\n", k)
    fi
}

/* What a member answers from its ring. */
#ifdef FORGOTTEN_NOT_SAID
#define has_all(m, k) true
#else
#define has_all(m, k) (since[m] <= from[k])
#endif
#define answers(m, k) (alive[m] && has_all(m, k) && reaches(m, upto[k]))
#define ring_holds(c, k) (ts[c] > since[i] -> holds(c, k) : 0)
#define answer_of(k) (ring_holds(0, k) | ring_holds(1, k) | ring_holds(2, k))
#define refuses(m, k) (!alive[m] || !has_all(m, k) || fenced[m] && last[m] < upto[k])

#ifdef DEAD_NOT_HEEDED
#define has_deaths(k) false
#else
#define has_deaths(k) (known_dead[k] != 0)
#endif
#ifdef CLOCK_NOT_COMPARED
#define begins_below_clock(k) false
#else
#define begins_below_clock(k) (from[k] < known_clock[k])
#endif
#ifdef MEMBER_NOT_ASKED
#define asked_by(k) 0
#elif defined(MEMBERS_READ_EARLY)
#define asked_by(k) others[k]   /* those that it knew when it looked at the group's row */
#else
#define asked_by(k) without(known_members[k], k)
#endif

inline gathered(k)
{
    require_whole(k);
    step[k] = PUT;
    others[k] = 0
}
inline read_logs(k)
{
    got[k] = 0;
    others[k] = known_members[k];
    step[k] = LOGS;
    printf("keeper %d: reads the logs\n", k)
}
/* Its own commits, once its watermark is at the batch's end; only then it looks at the assignment. */
inline begin_asking(k)
{
    if
    :: refuses(k, k) || has_deaths(k) || begins_below_clock(k) -> read_logs(k)
    :: else ->
        raise(last[k], upto[k]);
        i = k; got[k] = answer_of(k); i = 0;
        others[k] = asked_by(k);
        step[k] = ASK
    fi
}
inline ask(k, m)
{
    if
    :: refuses(m, k) -> read_logs(k)
    :: else ->
        raise(last[m], upto[k]);
        i = m; got[k] = got[k] | answer_of(k); i = 0;
        others[k] = without(others[k], m);
        printf("keeper %d: has the newest commits of member %d\n", k, m)
    fi
}
#define may_ask(k, m) (step[k] == ASK && has(others[k], m) && (refuses(m, k) || answers(m, k)))

/* A member seals its log, once the keeper has reached the batch's end. */
#define may_seal(k, m) (step[k] == LOGS && has(others[k], m) && alive[m] && may_take(k, upto[k]))
#define must_begin_again(k) (step[k] == LOGS && (others[k] & ~session_mask) != 0)
#define session_mask ((session[0] -> 1 : 0) | (session[1] -> 2 : 0) | (session[2] -> 4 : 0))
inline seal(k, m)
{
    follow(k, 0, upto[k]); follow(k, 1, upto[k]); follow(k, 2, upto[k]);
    i = m; got[k] = got[k] | commits_of(k); i = 0;
    others[k] = without(others[k], m)
}
/* Then the logs without an owner are listed. */
#ifdef DEAD_LOG_LEFT_OUT
#define is_ownerless(k, m) false
#else
#define is_ownerless(k, m) (!has(members | dead | known_members[k], m))
#endif
inline list(k)
{
    for (i : 0 .. MEMBERS - 1) {
        if :: is_ownerless(k, i) -> got[k] = got[k] | commits_of(k) :: else fi
    };
    i = 0;
    gathered(k)
}

#ifdef ENDED_BY_ANOTHER
#define ends(k) (batch != 0)
#else
#define ends(k) (batch == upto[k])
#endif
#ifdef FINISHED_EARLY
#define is_put(k) (put[k] != 0)
#else
#define is_put(k) (put[k] == 3)
#endif
inline finish(k)
{
    if
    :: ends(k) ->
        as_of = batch; batch = 0; version++;
        shown = with(shown, as_of);
        printf("keeper %d: finishes the batch to %d\n", k, as_of);
        require_right()
    :: else -> printf("keeper %d: the batch to %d is finished\n", k, upto[k])
    fi;
    rest(k)
}

#define is_news(k) (known_members[k] != members || known_dead[k] != dead || known_clock[k] != clock)

proctype Keeper(byte k)
{
end:
    do
    :: d_step { alive[k] && step[k] == REST && (as_of < LAST_SNAPSHOT || batch != 0) -> look(k) }
    :: d_step { alive[k] && step[k] == SNAPSHOT && may_take(k, from[k] + 1) ->
        take(k, from[k] + 1); step[k] = GATHER }
    :: d_step { alive[k] && step[k] == SNAPSHOT && may_take(k, from[k] + 2) ->
        take(k, from[k] + 2); step[k] = GATHER }
    :: d_step { alive[k] && step[k] == SNAPSHOT && version != compared[k] -> rest(k) }
    :: d_step { alive[k] && (step[k] == GATHER || step[k] == PUT && put[k] == 0) && !recorded[k] ->
        record(k) }
    :: d_step { alive[k] && step[k] == GATHER && (refuses(k, k) || answers(k, k)) -> begin_asking(k) }
    :: d_step { alive[k] && may_ask(k, 0) -> ask(k, 0) }
    :: d_step { alive[k] && may_ask(k, 1) -> ask(k, 1) }
    :: d_step { alive[k] && may_ask(k, 2) -> ask(k, 2) }
    :: d_step { alive[k] && step[k] == ASK && others[k] == 0 -> gathered(k) }
    :: d_step { alive[k] && may_seal(k, 0) -> seal(k, 0) }
    :: d_step { alive[k] && may_seal(k, 1) -> seal(k, 1) }
    :: d_step { alive[k] && may_seal(k, 2) -> seal(k, 2) }
    :: d_step { alive[k] && step[k] == LOGS && others[k] == 0 && dead == 0 -> list(k) }
    :: d_step { alive[k] && must_begin_again(k) -> rest(k) }
        /* Also the puts of a killed keeper that were under way. */
    :: d_step { may_put(k, 0) -> put_row(k, 0) }
    :: d_step { may_put(k, 1) -> put_row(k, 1) }
    :: d_step { alive[k] && step[k] == PUT && is_put(k) -> finish(k) }
        /* A zombie does not observe any more. */
    :: d_step { alive[k] && session[k] && is_news(k) ->
        known_members[k] = members; known_dead[k] = dead; known_clock[k] = clock;
        raise(last[k], clock);
        if
        :: has(members, JOINER) ->
            acknowledged = with(acknowledged, k);
            raise(last[JOINER], last[k])
        :: else
        fi;
        printf("member %d: observes members %d, dead %d (masks), clock %d\n", k, members, dead, clock) }
    od
}

/* ---------------------------------------------------------------- deaths and joins */

#define has_observed(k, m) (!(alive[k] && session[k]) || has(known_dead[k], m) || !has(members, k))
#define may_recover(m) (has(dead, m) && has_observed(0, m) && has_observed(1, m))
#define replay(c, m) if :: in_flight(c, m) -> state[c] = APPLIED :: else fi
#define declare_dead(m) \
    !session[m] && has(members, m) -> members = without(members, m); dead = with(dead, m); \
    printf("master: member %d is dead\n", m)
#define recover(m) \
    may_recover(m) -> fenced[m] = true; replay(0, m); replay(1, m); replay(2, m); \
    raise(clock, last[m]); dead = without(dead, m); \
    printf("master: member %d is recovered, clock %d\n", m, clock)

proctype Master()
{
end:
    do
    :: atomic { declare_dead(0) }
    :: atomic { declare_dead(1) }
    :: atomic { recover(0) }
    :: atomic { recover(1) }
#if CONFIGURATION == 1
    :: atomic { dead == 0 && !has(members, JOINER) && !commits[JOINER] ->
        members = with(members, JOINER); session[JOINER] = true; alive[JOINER] = true;
        printf("master: member 2 joins\n") }
    :: atomic { dead == 0 && has(members, JOINER) && !commits[JOINER] && \
        (without(members, JOINER) & ~acknowledged) == 0 ->
        raise(last[JOINER], clock);
        since[JOINER] = last[JOINER];
        commits[JOINER] = true;
        printf("member 2: may commit above %d\n", last[JOINER]) }
#endif
    od
}

#define may_strike(m) (crashes < CRASHES && session[m])
inline kill(m)
{
    crashes++; alive[m] = false; session[m] = false;
    if :: step[m] != PUT || !recorded[m] -> rest(m) :: else fi;
    printf("FAULT: member %d is killed\n", m)
}
inline suspect(m)
{
    crashes++; session[m] = false;
    printf("FAULT: member %d loses its session, and goes on\n", m)
}

/* Members 0 and 1 are alike. */
proctype Faults()
{
end:
    do
    :: atomic { may_strike(1) -> kill(1) }
    :: atomic { may_strike(1) -> suspect(1) }
    od
}

/* ---------------------------------------------------------------- the end of a run */

proctype Monitor()
{
    timeout ->
    if
    :: batch == 0 && as_of == LAST_SNAPSHOT && dead == 0
    :: else -> printf("STUCK: something has not ended\n"); assert(false)
    fi
}

init
{
    byte n;
    atomic {
        for (n : 0 .. KEEPERS - 1) {
            alive[n] = true; session[n] = true; commits[n] = true; known_members[n] = 3
        };
        members = 3;
        for (n : 0 .. COMMITS - 1) { run Commit(n) };
        run Keeper(0);
        run Keeper(1);
        run Master();
        run Faults();
        run Monitor();
        n = 0
    }
}
