/*
 * One-owner commit, and the take-over of a dead or merely suspected owner.
 *
 * SLAVES slaves, ROOTS roots, CRASHES faults. A fault is a kill (memory is lost; an append or a
 * put that was under way may still land, or not) or a lost session (the master takes the slave for
 * dead while it goes on: a zombie, which never learns of it). Processes: one per transaction, one
 * log stage and one take-over worker per slave, the master, the faults, the readers, the monitor.
 *
 * Checked: by assertions, over every interleaving, and for states without successors.
 *   SERIAL     at its commit point a transaction has read every commit before it on its roots
 *              (no lost update; with it "one effect per idempotency key", whose row is a root)
 *   RISING     the timestamps of a root's commits strictly rise, over all owners
 *   EXCLUSIVE  of all slaves that may grant a root's lock, at most one can append
 *   SNAPSHOT   a snapshot that was handed out is complete, and stays as it is; so is one that a
 *              slave takes for its own reads, which have what it has logged and not yet put, too
 *   DURABLE    what was logged is wholly in the store before its roots are granted again
 *   NOT STUCK  where nothing can happen any more, every transaction has ended, everything logged
 *              is applied, every root has an owner with a session
 *
 * Left out, and why that is sound for these properties:
 * - Time. A timestamp is a small number; a tick may skip one, so clocks drift apart. Nothing waits
 *   for a time: time-outs are free choices. More runs than real clocks allow, never fewer.
 * - Zombies learn nothing. A real one stops granting when it notices; here it goes on for ever,
 *   which includes every moment at which it might notice. A frozen process is one that is not
 *   scheduled for a while.
 * - The readers are one number, the highest snapshot handed out. Complete and unchanging from then
 *   on is more than "all or nothing" for any reader at it or below, however slow. Watermarks only
 *   rise, so a minimum of watermarks fetched at different moments is below the one taken here.
 * - So are the reads of slaves that lay their own logged rows over the store. Their one number,
 *   `near`, is at or above the first. It is complete where it was taken, for as long as that slave
 *   lives; no later commit, of any slave, is at or below it.
 * - All locks of a transaction are taken in one step. That hides waiting and wait-die, which is an
 *   argument about cycles (txlayer/locking/locks.py) and about the lock table, not about faults.
 * - A root is one row. Its further rows, views and indexes are puts of the same record.
 * - The store does not lose acknowledged puts, the log no synced record; what flush and the
 *   checkpoint's order are worth when a machine loses power is for the crash tests. The master is
 *   one process that does not fail: its state is a versioned node that survives it.
 * - A slave that comes back is a new one under a new epoch: it joins, as the last slave does here.
 * - Checkpoints that are right. What is before one is in the store, where replaying it changes
 *   nothing, so leaving it out changes nothing either. CHECKPOINT_EARLY has one that is wrong.
 * - Whether the outcome of an append is known to the slave. Today a failed append ends the
 *   committer; that is a kill with an append that landed or did not.
 *
 * Broken variants, each by a -D: NO_FENCE, FENCE_SEGMENT_ONLY, READ_BEFORE_FENCE,
 * UNLOCK_BEFORE_LOGGED, UNLOCK_BEFORE_APPLIED, WATERMARK_EARLY, READ_WITHOUT_LOGGED,
 * LOGGED_DROPPED_EARLY, NEAR_NOT_MERGED, REPLAY_NEW_TIMESTAMP, GRANT_BEFORE_REPLAY,
 * CHECKPOINT_EARLY, SUCCESSOR_KEEPS_CLOCK, STALE_SUCCESSOR, JOIN_WITHOUT_MERGE,
 * PURGE_UNDER_ZOMBIE, DROP_DEAD_WATERMARK, GRANT_TO_SUCCEEDED, CLOCK_NOT_NOTED.
 */

#ifndef SLAVES
#define SLAVES 3
#endif
#ifndef ROOTS
#define ROOTS 3
#endif
#ifndef CRASHES
#define CRASHES 2
#endif

#define TRANSACTIONS ROOTS      /* 0 and 1 write roots 0 and 1; 2 writes root 2, maybe 1 too */
#ifndef LAST_SNAPSHOT
#define LAST_SNAPSHOT 2         /* snapshots handed out: 0 to this */
#endif
#define SKIP_BELOW 1            /* a tick may skip a timestamp below this */
#define NOBODY 15

/* Life of a transaction. REFUSED: the log did not take it. */
#define IDLE 0
#define LOCKED 1
#define TICKED 2
#define LOGGED 3
#define FINISHED 4
#define REFUSED 5

/* A take-over worker's job for one dead slave. */
#define NONE 0
#define ASSIGNED 1
#define HALF 2
#define READ 3

byte state[TRANSACTIONS];
byte home[TRANSACTIONS] = NOBODY;       /* the slave that runs it */
byte ts[TRANSACTIONS];
byte roots[TRANSACTIONS];               /* sets of roots, of transactions: bit masks */
byte cells[TRANSACTIONS];               /* roots whose new row is in the store */
byte has_read[TRANSACTIONS];            /* transactions whose rows it has read */
bool seen[TRANSACTIONS];                /* a successor has read its record */
#ifdef CHECKPOINT_EARLY
bool checkpointed[TRANSACTIONS];
#endif

bool alive[SLAVES];                     /* false: killed */
bool session[SLAVES];                   /* false: the master takes it for dead */
bool member[SLAVES];                    /* its watermark counts */
byte own[SLAVES];                       /* roots that it believes to own: it may grant them */
byte held[SLAVES];                      /* roots that the assignment gives it */
byte last[SLAVES];                      /* its hybrid logical clock */
bool fenced[SLAVES];                    /* its log takes no more */
byte noted[SLAVES];                     /* the clock in the newest checkpoint of its log */
byte successor[SLAVES] = NOBODY;        /* the assignment: who takes it over */
byte job[SLAVES * SLAVES];              /* [worker * SLAVES + dead] */

byte snapshot;                          /* the highest handed out */
byte near;                              /* the highest that a slave took for its own reads */
byte crashes;
#ifdef REPLAY_NEW_TIMESTAMP
byte recells[TRANSACTIONS];             /* rows put again under another timestamp */
#endif
#ifdef STALE_SUCCESSOR
byte claimed[SLAVES];
#endif
#ifdef PURGE_UNDER_ZOMBIE
bool purged;                            /* transaction 1 deleted; its tombstones are gone */
#endif

#define logged(t) (state[t] == LOGGED || state[t] == FINISHED)
#define shares(t, u) ((t) != (u) && (roots[t] & roots[u]) != 0)
#define whole(t) (cells[t] == roots[t])

#ifdef UNLOCK_BEFORE_LOGGED
#define locks(t) (state[t] == LOCKED)
#elif defined(UNLOCK_BEFORE_APPLIED)
#define locks(t) (state[t] == LOCKED || state[t] == TICKED)
#else
#define locks(t) (state[t] == LOCKED || state[t] == TICKED || state[t] == LOGGED)
#endif

/* A refused append stays in flight: its slave does not know that it was not written. */
#ifdef WATERMARK_EARLY
#define in_flight(t) (state[t] == TICKED || state[t] == REFUSED)
#else
#define in_flight(t) (state[t] == TICKED || state[t] == LOGGED || state[t] == REFUSED)
#endif

#if TRANSACTIONS == 3
#define all(p) (p(0) && p(1) && p(2))
#define any(p) (p(0) || p(1) || p(2))
#define any2(p, x) (p(0, x) || p(1, x) || p(2, x))
#define each(p) p(0); p(1); p(2)
#define each2(p, x) p(0, x); p(1, x); p(2, x)
#else
#define all(p) (p(0) && p(1))
#define any2(p, x) (p(0, x) || p(1, x))
#define each2(p, x) p(0, x); p(1, x)
#define each(p) p(0); p(1)
#endif
#if SLAVES == 3
#define all_slaves(p) (p(0) && p(1) && p(2))
#define each_slave(p) p(0); p(1); p(2)
#define all_slaves2(p, x) (p(0, x) && p(1, x) && p(2, x))
#else
#define all_slaves(p) (p(0) && p(1))
#define each_slave(p) p(0); p(1)
#define all_slaves2(p, x) (p(0, x) && p(1, x))
#endif

/* ---------------------------------------------------------------- a transaction */

#define reads(u, t) \
    if :: shares(t, u) && (cells[u] & roots[t]) == (roots[u] & roots[t]) -> \
        has_read[t] = has_read[t] | (1 << (u)) \
       :: else fi

inline put(r)
{
    cells[t] = cells[t] | (1 << (r));
    printf("slave %d: puts root %d of transaction %d at %d\n", home[t], r, t, ts[t])
}

#define may_begin(s) (alive[s] && (own[s] & roots[t]) == roots[t] && free(s))
#define held_by(u, s) (home[u] == (s) && locks(u) && shares(t, u))
#define free(s) (!any2(held_by, s))
#define lacks(r) ((roots[t] & ~cells[t] & (1 << (r))) != 0)

proctype Transaction(byte t)
{
    /* Steps 1 to 6: lock, and read under the lock. A zombie grants what it believes to own.
       Transactions 0 and 1 are alike, so one order of their beginnings stands for both. */
    atomic {
        t != 1 || state[0] != IDLE;
        if
        :: may_begin(0) -> home[t] = 0
        :: may_begin(1) -> home[t] = 1
#if SLAVES == 3
        :: may_begin(2) -> home[t] = 2
#endif
        fi;
        state[t] = LOCKED;
        each2(reads, t);
        printf("slave %d: transaction %d locks roots %d (mask) and reads\n", home[t], t, roots[t])
    };

    /* Step 7 is the log stage's. A refused transaction, or one killed before, waits here. */
end_log:
    logged(t);

    /* Step 8: put, row by row, in any order. What a killed slave had under way may land late. */
end_put:
    do
    :: atomic { lacks(0) -> put(0) }
    :: atomic { lacks(1) -> put(1) }
#if ROOTS == 3
    :: atomic { lacks(2) -> put(2) }
#endif
#ifdef CHECKPOINT_EARLY
    :: atomic { alive[home[t]] && !fenced[home[t]] && !checkpointed[t] -> checkpointed[t] = true;
        printf("slave %d: writes a checkpoint behind transaction %d\n", home[t], t) }
#endif
#ifdef PURGE_UNDER_ZOMBIE
    :: atomic { alive[home[t]] && purged && t == 0 ->
        printf("slave %d: puts root 0 of transaction 0 at %d again, late\n", home[t], ts[t]);
        printf("SNAPSHOT: the deleted row is back\n");
        assert(false) }
#endif
    /* Step 10. */
    :: atomic { whole(t) && alive[home[t]] ->
        state[t] = FINISHED;
        printf("slave %d: finishes transaction %d, unlocks\n", home[t], t) } -> break
    od
}

/* ---------------------------------------------------------------- a slave's log stage */

#define waits(t, s) (home[t] == (s) && state[t] == LOCKED)
#define ticked(t, s) (home[t] == (s) && state[t] == TICKED)
#define take(t, s) \
    if :: waits(t, s) -> state[t] = TICKED; ts[t] = last[s]; \
        printf("slave %d: ticks %d for transaction %d\n", s, last[s], t) \
       :: else fi
#define rises(u, t) (!(shares(t, u) && logged(u)) || ts[t] > ts[u])
#define has_seen(u, t) (!(shares(t, u) && logged(u)) || (has_read[t] & (1 << (u))) != 0)
#if TRANSACTIONS == 3
#define all2(p, x) (p(0, x) && p(1, x) && p(2, x))
#else
#define all2(p, x) (p(0, x) && p(1, x))
#endif
#define commit_point(t, s) \
    if :: ticked(t, s) -> \
        state[t] = LOGGED; \
        printf("slave %d: appends transaction %d: committed at %d, answers\n", s, t, ts[t]); \
        if :: all2(has_seen, t) :: else -> printf("SERIAL: a commit before it was not read\n"); \
            assert(false) fi; \
        if :: all2(rises, t) :: else -> printf("RISING: a root's timestamps do not rise\n"); \
            assert(false) fi; \
        has_read[t] = 0; \
        if :: ts[t] > snapshot :: else -> \
            printf("SNAPSHOT: snapshot %d was handed out before\n", snapshot); assert(false) fi; \
        if :: ts[t] > near :: else -> \
            printf("SNAPSHOT: snapshot %d was read by a slave before\n", near); assert(false) fi \
       :: else fi
#define refuse(t, s) \
    if :: ticked(t, s) -> state[t] = REFUSED; has_read[t] = 0; \
        printf("slave %d: the fence refuses transaction %d\n", s, t) \
       :: else fi

#ifdef FENCE_SEGMENT_ONLY
#define takes_appends(s) true   /* refused once, it rolls to a new segment, which is not fenced */
#else
#define takes_appends(s) (!fenced[s])
#endif

proctype LogStage(byte s)
{
end:
    do
    :: atomic { alive[s] && any2(waits, s) ->
        if
        :: true -> last[s] = last[s] + 1
        :: last[s] < SKIP_BELOW -> last[s] = last[s] + 2
        fi;
        each2(take, s) };
        /* An append that was under way at a kill may land, as long as no fence forbids it. */
end_append:
        if
        :: atomic { takes_appends(s) ->
#ifdef FENCE_SEGMENT_ONLY
            if
            :: fenced[s] -> printf("slave %d: append refused; rolls to a new segment\n", s)
            :: else
            fi;
#endif
            each2(commit_point, s) }
        :: atomic { alive[s] && !takes_appends(s) -> each2(refuse, s) }
        fi
    od
}

/* ---------------------------------------------------------------- the master */

#define may_succeed(s, d) ((s) != (d) && session[s] && member[s])
#define needs_successor(d) \
    (member[d] && !session[d] && (successor[d] == NOBODY || !session[successor[d]]))
#ifdef STALE_SUCCESSOR
#define claim(d) if :: held[d] != 0 -> claimed[d] = held[d] :: else fi
#else
#define claim(d) skip
#endif
#define appoint(s, d) \
    may_succeed(s, d) -> claim(d); successor[d] = s; job[(s) * SLAVES + (d)] = ASSIGNED; \
    printf("master: slave %d takes over slave %d\n", s, d)

#ifdef DROP_DEAD_WATERMARK
#define noticed(d) member[d] = false
#define needs_take_over(d) (!session[d] && held[d] != 0)
#undef needs_successor
#define needs_successor(d) \
    (!session[d] && held[d] != 0 && (successor[d] == NOBODY || !session[successor[d]]))
#else
#define noticed(d) skip
#endif

proctype Master()
{
    byte d;
end:
    do
    :: atomic {
        if
        :: needs_successor(0) -> d = 0
        :: needs_successor(1) -> d = 1
#if SLAVES == 3
        :: needs_successor(2) -> d = 2
#endif
        fi;
        if
        :: appoint(0, d)
        :: appoint(1, d)
#if SLAVES == 3
        :: appoint(2, d)
#endif
        fi;
        noticed(d);
        d = 0 }
    od
}

/* ---------------------------------------------------------------- take-over */

#define JOB job[s * SLAVES + d]
#ifdef SUCCESSOR_KEEPS_CLOCK
#define follow(t, s) skip
#else
#define follow(t, s) if :: ts[t] > last[s] -> last[s] = ts[t] :: else fi
#endif
#ifdef CLOCK_NOT_NOTED
#define follow_noted skip
#else
#define follow_noted if :: noted[d] > last[s] -> last[s] = noted[d] :: else fi
#endif
#define read_record(t) \
    if :: home[t] == d && logged(t) -> seen[t] = true; follow(t, s) :: else fi
#ifdef CHECKPOINT_EARLY
#define to_replay(t) (home[t] == d && seen[t] && !checkpointed[t])
#else
#define to_replay(t) (home[t] == d && seen[t])
#endif
#ifdef REPLAY_NEW_TIMESTAMP
#define replayed(t) (!to_replay(t) || recells[t] == roots[t])
#define may_replay(t) (to_replay(t) && recells[t] != roots[t])
#else
#define replayed(t) (!to_replay(t) || whole(t))
#define may_replay(t) (to_replay(t) && !whole(t))
#endif
#define durable(t, d) (home[t] != (d) || !logged(t) || whole(t))
#define cannot_append(z) ((z) == s || (own[z] & GIVEN) == 0 || !alive[z] || fenced[z])

#ifdef STALE_SUCCESSOR
#define is_successor(s, d) true
#define GIVEN claimed[d]        /* what it was promised when it was appointed */
#else
#define is_successor(s, d) (successor[d] == s)
#define GIVEN held[d]
#endif
#ifdef GRANT_TO_SUCCEEDED
#define not_succeeded(s) true
#else
#define not_succeeded(s) (member[s] && successor[s] == NOBODY)
#endif

inline replay(t)
{
#ifdef REPLAY_NEW_TIMESTAMP
    last[s] = last[s] + 1;
    recells[t] = roots[t];
    printf("slave %d: replays transaction %d at %d instead of %d\n", s, t, last[s], ts[t])
#else
    if
    :: (roots[t] & ~cells[t] & 1) -> cells[t] = cells[t] | 1
    :: (roots[t] & ~cells[t] & 2) -> cells[t] = cells[t] | 2
#if ROOTS == 3
    :: (roots[t] & ~cells[t] & 4) -> cells[t] = cells[t] | 4
#endif
    fi;
    printf("slave %d: replays a row of transaction %d at %d\n", s, t, ts[t])
#endif
}

inline grant()
{
    /* The assignment is written by compare-and-set: a former successor's answer is refused, and
       that of one which is itself taken over by now: nobody would take these roots from it. */
    if
    :: is_successor(s, d) && not_succeeded(s) ->
        printf("master: the roots of slave %d (mask %d) go to slave %d\n", d, GIVEN, s);
        if :: all_slaves(cannot_append) :: else ->
            printf("EXCLUSIVE: two slaves grant a root and both can append\n"); assert(false) fi;
        noted[s] = last[s];
        own[s] = own[s] | GIVEN;
        held[s] = held[s] | GIVEN;
        held[d] = 0;
        member[d] = false;
        noted[d] = 0;
        successor[d] = NOBODY
    :: else -> printf("master: refuses slave %d, which was succeeded itself\n", s)
    fi
}

proctype TakeOver(byte s; byte d)
{
end:
    do
#ifdef READ_BEFORE_FENCE
    :: atomic { alive[s] && JOB == ASSIGNED -> JOB = HALF; each(read_record);
        follow_noted;
        printf("slave %d: reads the log of slave %d\n", s, d) }
    :: atomic { alive[s] && JOB == HALF -> JOB = READ; fenced[d] = true;
        printf("slave %d: fences the log of slave %d\n", s, d) }
#else
    :: atomic { alive[s] && JOB == ASSIGNED -> JOB = READ;
#ifdef NO_FENCE
        printf("slave %d: reads the log of slave %d without a fence\n", s, d);
#else
        fenced[d] = true;
        printf("slave %d: fences and reads the log of slave %d\n", s, d);
#endif
        each(read_record);
        follow_noted }
#endif
    :: atomic { alive[s] && JOB == READ && may_replay(0) -> replay(0) }
    :: atomic { alive[s] && JOB == READ && may_replay(1) -> replay(1) }
#if TRANSACTIONS == 3
    :: atomic { alive[s] && JOB == READ && may_replay(2) -> replay(2) }
#endif
#ifdef GRANT_BEFORE_REPLAY
    :: atomic { alive[s] && JOB == READ && (own[s] & held[d]) != held[d] ->
        own[s] = own[s] | held[d];
        printf("slave %d: grants the roots of slave %d before it has replayed\n", s, d) }
#endif
    :: atomic { alive[s] && JOB == READ && all(replayed) ->
        /* Its own checkpoint notes the clock, for whoever takes *it* over. A fence refuses it. */
        JOB = NONE;
#ifndef REPLAY_NEW_TIMESTAMP
        if :: all2(durable, d) :: else ->
            printf("DURABLE: a logged transaction of slave %d is not in the store\n", d);
            assert(false) fi;
#endif
        grant() }
    od
}

/* ---------------------------------------------------------------- joining, faults */

/* The last slave joins late, with a clock of its own: it counts first, then follows the others'
   watermarks, and only then may it be given roots. */
proctype Join(byte s)
{
    atomic {
        member[s] = true;
#ifndef JOIN_WITHOUT_MERGE
        if :: near > last[s] -> last[s] = near :: else fi;
#endif
        printf("slave %d: joins, its clock at %d\n", s, last[s])
    }
}

#define may_suspect(s) (session[s] && member[s])
#define may_kill(s) (alive[s] && member[s])

inline kill(s)
{
    alive[s] = false;
    session[s] = false;
    own[s] = 0;
    printf("FAULT: slave %d is killed\n", s)
}

inline suspect(s)
{
    session[s] = false;
    printf("FAULT: slave %d loses its session, and goes on\n", s)
}

proctype Faults()
{
end:
    do
    :: atomic { crashes < CRASHES && may_kill(0) -> crashes++; kill(0) }
    :: atomic { crashes < CRASHES && may_kill(1) -> crashes++; kill(1) }
    :: atomic { crashes < CRASHES && may_suspect(0) -> crashes++; suspect(0) }
    :: atomic { crashes < CRASHES && may_suspect(1) -> crashes++; suspect(1) }
#if SLAVES == 3
    :: atomic { crashes < CRASHES && may_kill(2) -> crashes++; kill(2) }
    :: atomic { crashes < CRASHES && may_suspect(2) -> crashes++; suspect(2) }
#endif
    od
}

/* ---------------------------------------------------------------- readers */

#define NEXT (snapshot + 1)
#define holds_back(t, s) (home[t] == (s) && in_flight(t) && ts[t] <= NEXT)
#define busy(t, s) (home[t] == (s) && in_flight(t))
/* An idle slave that answers moves its clock on; a dead one's watermark stands still. */
#define permits(s) \
    (!member[s] || (!any2(holds_back, s) && (alive[s] || last[s] >= NEXT || any2(busy, s))))
#define observe(s) \
    if :: member[s] && last[s] < snapshot -> last[s] = snapshot :: else fi
#define complete(t) (!logged(t) || ts[t] > snapshot || whole(t))

/* A slave's own reads: of its own commits only those hold them back that are not logged. */
#define NEAR (near + 1)
#define holds_near(t, s) (home[t] == (s) && in_flight(t) && ts[t] <= NEAR)
#define ticks_near(t, s) \
    (home[t] == (s) && (state[t] == TICKED || state[t] == REFUSED) && ts[t] <= NEAR)
#define permits_near(s) \
    (!member[s] || (!any2(holds_near, s) && (alive[s] || last[s] >= NEAR || any2(busy, s))))
#define near_from(m, s) ((m) == (s) || permits_near(m))
#define may_read(s) (near < LAST_SNAPSHOT && alive[s] && member[s] && !any2(ticks_near, s) && \
    all_slaves2(near_from, s))
#define observe_near(s) \
    if :: member[s] && last[s] < near -> last[s] = near :: else fi
#ifdef READ_WITHOUT_LOGGED
#define laid_over(t, s) false
#elif defined(LOGGED_DROPPED_EARLY)
#define laid_over(t, s) (home[t] == (s) && state[t] == LOGGED && cells[t] == 0)
#else
#define laid_over(t, s) (home[t] == (s) && state[t] == LOGGED)
#endif
#define complete_near(t, s) (!logged(t) || ts[t] > near || whole(t) || laid_over(t, s))

inline read_near(s)
{
    near++;
#ifndef NEAR_NOT_MERGED
    each_slave(observe_near);
#endif
    printf("slave %d: reads at snapshot %d, with what it has logged\n", s, near);
    if :: all2(complete_near, s) :: else ->
        printf("SNAPSHOT: snapshot %d holds half a transaction at slave %d\n", near, s);
        assert(false) fi
}

proctype Readers()
{
end:
    do
    :: atomic { snapshot < LAST_SNAPSHOT && all_slaves(permits) ->
        snapshot++;
        if :: near < snapshot -> near = snapshot :: else fi;
        each_slave(observe);
        printf("reader: takes snapshot %d\n", snapshot);
        if :: all(complete) :: else ->
            printf("SNAPSHOT: snapshot %d holds half a transaction\n", snapshot);
            assert(false) fi }
    :: atomic { may_read(0) -> read_near(0) }
    :: atomic { may_read(1) -> read_near(1) }
#if SLAVES == 3
    :: atomic { may_read(2) -> read_near(2) }
#endif
#ifdef PURGE_UNDER_ZOMBIE
    :: atomic { !purged && state[1] == FINISHED && whole(0) && ts[0] < ts[1] && ts[1] <= snapshot ->
        purged = true;
        printf("purge: transaction 1 was a delete; its tombstones and what they hide go\n") }
#endif
    od
}

/* ---------------------------------------------------------------- the end of a run */

#define ended(t) (logged(t) -> whole(t) : (state[t] == REFUSED || !alive[home[t]]))
#define begun(t) (state[t] != IDLE)
#define settled(s) (held[s] == 0 || session[s])

proctype Monitor()
{
    timeout ->
    if
    :: all(begun) && all(ended) && all_slaves(settled)
    :: else -> printf("STUCK: something has not ended\n"); assert(false)
    fi
}

init
{
    byte i;
    atomic {
        for (i : 0 .. SLAVES - 1) {
            alive[i] = true;
            session[i] = true;
            member[i] = (i < SLAVES - 1)
        };
        roots[0] = 3;
        roots[1] = 3;
        held[0] = 3;
#if ROOTS == 3
        if
        :: held[0] = 7; roots[2] = 6    /* all roots have one owner */
        :: held[1] = 4; roots[2] = 4    /* two owners */
        fi;
        own[1] = held[1];
#endif
        own[0] = held[0];
        for (i : 0 .. TRANSACTIONS - 1) { run Transaction(i) };
        for (i : 0 .. SLAVES - 1) { run LogStage(i) };
        run TakeOver(0, 1); run TakeOver(1, 0);
#if SLAVES == 3
        run TakeOver(0, 2); run TakeOver(2, 0); run TakeOver(1, 2); run TakeOver(2, 1);
#endif
        run Master();
        run Join(SLAVES - 1);
        run Faults();
        run Readers();
        run Monitor();
        i = 0
    }
}
