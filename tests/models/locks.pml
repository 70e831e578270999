/*
 * Locks travel, commits do not (decision 21): transactions over the roots of several owners, each
 * committed in the log of the member that runs it, and the barrier that makes deaths, joining,
 * moves and changes of the schema safe.
 *
 * Three members, as many roots, CRASHES faults. A fault is a kill (memory is lost; an append or
 * a put that was under way may still land, or not) or a lost session (the master takes the member
 * for dead while it goes on: a zombie, which never learns of it). Processes: two transactions, the
 * members (they see the assignment and acknowledge it), the master, the faults, the readers (at any
 * node, zombies too), the monitor. CONFIGURATION chooses whether the transactions share one root or
 * two, and what the master does besides: let the last member join, move a slot, change the schema.
 *
 * Checked: by assertions, over every interleaving, and for states without successors.
 *   SERIAL     at its commit point, or when it is answered without a commit, a transaction has
 *              read every commit before it on its roots
 *   RISING     the timestamps of a root's commits strictly rise, over all members
 *   EXCLUSIVE  no two locks of one root at the same time on which a commit may still rest
 *   SNAPSHOT   a snapshot that was handed out, by a zombie too, is complete, and stays as it is
 *   DURABLE    what was committed is wholly in the store before a lock of its roots is granted on
 *              which a commit may rest
 *   SCHEMA     a transaction commits under the schema that it began under, and what was committed
 *              under the old one is in the store when it is changed
 *   NOT STUCK  where nothing can happen any more, every transaction has ended, everything committed
 *              is applied, no lock is held, every root has an owner with a session, no member is
 *              dead and not recovered
 *
 * Left out, and why that is sound for these properties:
 * - Time, a zombie's learning, rows of a root, the master, the store: as in commit.pml.
 * - A coordinator asks anybody who believes to own the root, whatever it believes itself: its
 *   request may have been sent a version ago. Request, grant, arrival and reading are one step. A
 *   grant that arrives late is like one that a zombie gives late. Reading as early as may be is the
 *   hardest case: SERIAL counts every commit since.
 * - Releases arrive late, at each owner by itself, or, if their sender was killed, at its recovery.
 *   Locks at the coordinator itself are freed at once.
 * - Handing to the log and ticking are one step, and appends may overtake one another, which a log
 *   does not allow. Who waits in the queue is, for all others, as if handed over. Putting the rows
 *   and finishing are one step: a death between the two is one before, with less to recover.
 * - Transaction 0 is the older: who runs them and which roots they share are free. They have one
 *   attempt; another is another transaction, as locks, grants and releases name the attempt.
 * - After the first fault a transaction may give up without a cause (a time-out); before it only
 *   wait-die, or a slot that is leaving, makes it. NOT STUCK therefore looks for locks, too.
 * - A member acknowledges as soon as it may, with the lowest clock that it can say. Later is like a
 *   master that is slow.
 * - Who recovers a log is not named, and may be many, one after the other: to fence and to put are
 *   idempotent, and what is done stays done whoever did it and died. Rows are put transaction by
 *   transaction. A dead member's own late puts are the same puts.
 * - A zombie whose log is fenced does nothing any more but read. Its commits are refused, what it
 *   could still be granted it could have been granted just before the fence, and likewise for what
 *   it grants; it is certain of no session. Variants that are about this let it act.
 * - Shared locks. Two that share a lock do not write what it protects.
 * - Reading the log before the fence, checkpoints, purging: commit.pml.
 *
 * Broken variants, each by a -D: GRANT_NOT_MERGED, RELEASE_NOT_MERGED, MEMBERSHIP_NOT_CHECKED,
 * MEMBERSHIP_CHECKED_EARLY, RELEASE_BEFORE_APPLIED, FREE_AT_DEATH, KEEP_LOCKS_OF_THE_DEAD,
 * GRANT_TO_THE_DEAD, NO_FENCE, GRANT_BEFORE_REPLAY, GRANT_BEFORE_ACKNOWLEDGED,
 * ACKNOWLEDGE_UNAPPLIED, RECOVER_ONE_BY_ONE, ANSWER_UNCERTAIN, LATE_REQUEST, WAIT_FOR_ANYBODY,
 * DROP_DEAD_WATERMARK, RESERVED_NOT_RECOVERED, DEATH_WITHOUT_CLOCK, MOVE_WITHOUT_CLOCK,
 * VERSION_NOT_MERGED, JOIN_COMMITS_EARLY, JOIN_BESIDE_THE_DEAD, MOVE_WITHOUT_DRAINING,
 * GRANT_WHILE_LEAVING, WAIT_FOR_LEAVING, MOVE_NOT_WITHDRAWN, CHANGE_WITHOUT_DRAINING,
 * CHANGE_BESIDE_THE_DEAD.
 */

#define MEMBERS 3
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef LAST_SNAPSHOT
#define LAST_SNAPSHOT 2         /* snapshots handed out: 0 to this */
#endif
#define SKIP_BELOW 1            /* a tick of member 0, whose clock is fast, may skip one */
#define NOBODY 15

/* Life of a transaction. LOST: with its coordinator. */
#define IDLE 0
#define LOCKING 1
#define TICKED 2
#define LOGGED 3
#define FINISHED 4
#define GIVEN_UP 5
#define LOST 6

/* A member and the newest version of the assignment. */
#define UNSEEN 0
#define SEEN 1
#define ACKNOWLEDGED 2

/* What the master does besides. */
#define NOTHING 0
#define JOIN 1
#define MOVE 2
#define CHANGE 3

byte state[2];
byte home[2];                           /* its coordinator */
byte roots[2];                          /* bit masks of roots */
byte ts[2];
byte cells[2];                          /* roots whose new row is in the store */
byte has_read[2];                       /* roots of which it read the other's row */
byte grantor[2 * MEMBERS];              /* [transaction * MEMBERS + root]: whose lock it has */
bool under[2];                          /* the schema it began under */

/* The assignment: masks of members. */
byte members;
byte working;                            /* those of them that may commit */
byte dead;                              /* and not recovered */
byte to_recover;                        /* by the step that is being taken */
byte owner[MEMBERS];                    /* of a root */
byte leaving = NOBODY;                  /* a root that its owner is to give away */
bool gate;                              /* closed, for a change of the schema */
bool schema;
byte floor;                             /* the highest clock acknowledged or recovered */
byte said;                              /* the same, for the next version */
byte planned;
bool done;

/* What a member has seen of it. */
byte seen[MEMBERS];
byte view[MEMBERS];                     /* members */
byte view_dead[MEMBERS];
byte own[MEMBERS];                      /* roots whose locks it grants */
bool may_log[MEMBERS];
bool closed[MEMBERS];
bool view_schema[MEMBERS];

bool alive[MEMBERS];                    /* false: killed */
bool session[MEMBERS];                  /* false: the master takes it for dead */
bool fenced[MEMBERS];                   /* its log takes no more */
byte last[MEMBERS];                     /* its hybrid logical clock */
byte reserved[MEMBERS];                 /* the highest timestamp in its log: never shown above it */
byte lock[MEMBERS * MEMBERS];           /* [owner * MEMBERS + root]: 1 + the transaction */

byte snapshot;                          /* the highest handed out */
byte crashes;

#define has(mask, i) (((mask) & (1 << (i))) != 0)
#define with(mask, i) ((mask) | (1 << (i)))
#define without(mask, i) ((mask) & ~(1 << (i)))
#define raise(clock, to) if :: clock < (to) -> clock = to :: else fi
#define held(t, r) grantor[(t) * MEMBERS + (r)]
#define locked_by(o, r) lock[(o) * MEMBERS + (r)]

#define all_members(p) (p(0) && p(1) && p(2))
#define all_members2(p, x) (p(0, x) && p(1, x) && p(2, x))
#define any_member(p) (p(0) || p(1) || p(2))
#define any_member2(p, x) (p(0, x) || p(1, x) || p(2, x))
#define each_member(p) p(0); p(1); p(2)
#define each_member2(p, x) p(0, x); p(1, x); p(2, x)
#define each_member3(p, x, y) p(0, x, y); p(1, x, y); p(2, x, y)

/* Choose whom, or what, a step is about. */
#define choose(x, p) if :: p(0) -> x = 0 :: p(1) -> x = 1 :: p(2) -> x = 2 fi
#define choose_lock(p) \
    if \
    :: p(0, 0) -> r = 0; o = 0 :: p(0, 1) -> r = 0; o = 1 :: p(0, 2) -> r = 0; o = 2 \
    :: p(1, 0) -> r = 1; o = 0 :: p(1, 1) -> r = 1; o = 1 :: p(1, 2) -> r = 1; o = 2 \
    :: p(2, 0) -> r = 2; o = 0 :: p(2, 1) -> r = 2; o = 1 :: p(2, 2) -> r = 2; o = 2 \
    fi

#define logged(t) (state[t] == LOGGED || state[t] == FINISHED)
#define whole(t) (cells[t] == roots[t])
#define other (1 - t)
#define ME home[t]
#define shared (roots[0] & roots[1])

/* ---------------------------------------------------------------- locks */

/* A zombie whose log is recovered can do nothing that is seen, but read. */
#define works(m) (alive[m] && !fenced[m])

/* The coordinator's log is looked after by the fence, its grantors by its view (rule 2). */
#define is_worth(r, t) (held(t, r) == NOBODY || has(view[home[t]], held(t, r)))
#ifdef MEMBERSHIP_NOT_CHECKED
#define rests_on_members(t) true
#define accepts(m, o) true
#elif defined(MEMBERSHIP_CHECKED_EARLY)
#define rests_on_members(t) true
#define accepts(m, o) has(view[m], o)
#else
#define rests_on_members(t) all_members2(is_worth, t)
#define accepts(m, o) true
#endif
#define granted(r, t) (!has(roots[t], r) || held(t, r) != NOBODY)
#define may_commit(t) ((state[t] == LOCKING && alive[home[t]] && rests_on_members(t) || \
    state[t] == TICKED) && !fenced[home[t]])

#define wants(r) ((state[t] == IDLE && !closed[ME] || state[t] == LOCKING) && asks(ME) && \
    has(roots[t], r) && held(t, r) == NOBODY)
#ifdef GRANT_TO_THE_DEAD
#define asks(m) alive[m]
#define knows(o, t) true
#else
#define asks(m) works(m)
#define knows(o, t) has(view[o], home[t])
#endif
#define grants(o, r) (works(o) && has(own[o], r) && knows(o, t) && locked_by(o, r) == 0)
#ifdef GRANT_NOT_MERGED
#define merge_grant(o) skip
#else
#define merge_grant(o) raise(last[ME], last[o])
#endif

inline take(r, o)
{
    if :: state[t] == IDLE -> state[t] = LOCKING; under[t] = view_schema[ME] :: else fi;
    held(t, r) = o;
    locked_by(o, r) = 1 + t;
    merge_grant(o);
    if :: has(cells[other], r) -> has_read[t] = with(has_read[t], r) :: else fi;
    printf("member %d: gets the lock of root %d from member %d for transaction %d, reads\n",
        ME, r, o, t);
    if
    :: may_commit(t) && has(roots[other], r) ->
        if :: may_commit(other) && held(other, r) != NOBODY ->
            printf("EXCLUSIVE: transaction %d has a lock of root %d, too\n", other, r);
            assert(false) :: else fi;
        if :: logged(other) && !has(cells[other], r) ->
            printf("DURABLE: transaction %d is committed and not in the store\n", other);
            assert(false) :: else fi
    :: else
    fi
}

/* Wait-die: a younger one that holds something does not wait. */
#ifdef WAIT_FOR_ANYBODY
#define is_younger(t) false     /* or both of the same age, and each takes itself for the older */
#else
#define is_younger(t) ((t) == 1)
#endif
#define blocked(r, t) (has(roots[t], r) && held(t, r) == NOBODY && is_held_up(r))
#define is_held_up(r) (holds_up(0, r) || holds_up(1, r) || holds_up(2, r))
#define holds_up(o, r) (alive[o] && has(own[o], r) && locked_by(o, r) == 1 + other)
/* An owner refuses a request for a root that it is to give away: waiting there might wait for the
   move, which waits for whoever waits for this one. */
#define is_refused(r, t) (has(roots[t], r) && held(t, r) == NOBODY && leaving == (r) && \
    !has(own[owner[r]], r))
#ifdef WAIT_FOR_LEAVING
#define must_die(t) (is_younger(t) && any_member2(blocked, t))
#else
#define must_die(t) (is_younger(t) && any_member2(blocked, t) || any_member2(is_refused, t))
#endif

#define let_go(r, t) \
    if :: held(t, r) == ME -> locked_by(ME, r) = 0 :: else fi; \
    held(t, r) = NOBODY
#define waits_for_release(r, o) (locked_by(o, r) == 1 + t)
#ifdef RELEASE_BEFORE_APPLIED
#define may_release (state[t] == LOGGED || state[t] == FINISHED || state[t] == GIVEN_UP)
#else
#define may_release (state[t] == FINISHED || state[t] == GIVEN_UP)
#endif
#define drop(r, o) if :: locked_by(o, r) == 1 + t -> locked_by(o, r) = 0 :: else fi
#ifdef RELEASE_NOT_MERGED
#define merge_release(o) skip
#else
#define merge_release(o) raise(last[o], ts[t])
#endif

inline release(o)
{
    each_member2(drop, o);
    merge_release(o);
    printf("member %d: frees the locks of transaction %d\n", o, t)
}

/* ---------------------------------------------------------------- a transaction */

inline read_all(t)
{
    if :: !logged(other) || (has_read[t] & shared) == shared
       :: else -> printf("SERIAL: a commit before it was not read\n"); assert(false) fi
}

inline hand_over()
{
    if
    :: true -> last[ME] = last[ME] + 1
    :: ME == 0 && last[ME] < SKIP_BELOW -> last[ME] = last[ME] + 2
    fi;
    state[t] = TICKED;
    ts[t] = last[ME];
    printf("member %d: hands transaction %d to the log, at %d\n", ME, t, ts[t])
}

inline commit()
{
    state[t] = LOGGED;
    raise(reserved[ME], ts[t]);
    printf("member %d: appends transaction %d: committed at %d\n", ME, t, ts[t]);
    read_all(t);
    if :: !logged(other) || shared == 0 || ts[t] > ts[other] :: else ->
        printf("RISING: a root's timestamps do not rise\n"); assert(false) fi;
    if :: ts[t] > snapshot :: else ->
        printf("SNAPSHOT: snapshot %d was handed out before\n", snapshot); assert(false) fi;
    if :: under[t] == schema :: else ->
        printf("SCHEMA: the schema was changed under transaction %d\n", t); assert(false) fi;
    has_read[t] = 0
}

inline give_up()
{
    state[t] = GIVEN_UP;
    has_read[t] = 0;
    under[t] = 0;
    each_member2(let_go, t)
}

#ifdef ANSWER_UNCERTAIN
#define answers(m) alive[m]
#define is_certain(m) true
#else
#define answers(m) works(m)
#define is_certain(m) session[m]
#endif

#define may_take(r, o) (wants(r) && grants(o, r) && accepts(ME, o))
#define may_free(o) (may_release && works(o) && any_member2(waits_for_release, o) && is_behind)
#define has_locks (state[t] == LOCKING && answers(ME) && all_members2(granted, t) && \
    rests_on_members(t))
#ifdef NO_FENCE
#define may_replay(m) has(dead, m)
#else
#define may_replay(m) fenced[m]
#endif
#ifdef LATE_REQUEST
bool late;
#define is_behind (!late)
#define may_come_late(r, o) (state[t] == GIVEN_UP && has(roots[t], r) && grants(o, r))
#else
#define is_behind true
#endif

proctype Transaction(byte t)
{
    byte r, o;
end:
    do
    :: atomic { choose_lock(may_take); take(r, o); r = 0; o = 0 }
    :: atomic { state[t] == LOCKING && works(ME) && (must_die(t) || crashes > 0) ->
        printf("member %d: gives transaction %d up\n", ME, t);
        give_up() }
    /* It turns out to write nothing, or is refused for what it has read: nothing is logged. */
    :: atomic { has_locks && is_certain(ME) ->
        printf("member %d: answers transaction %d, which writes nothing\n", ME, t);
        read_all(t);
        give_up() }
    :: atomic { has_locks && works(ME) && may_log[ME] -> hand_over() }
    /* An append that was under way at a kill may land, as long as no fence forbids it. */
    :: atomic { state[t] == TICKED && !fenced[ME] -> commit() }
    :: atomic { state[t] == LOGGED && works(ME) ->
        state[t] = FINISHED;
        cells[t] = roots[t];
        each_member2(let_go, t);
        printf("member %d: puts the rows of transaction %d at %d, finishes it\n", ME, t, ts[t]) }
    :: atomic { state[t] == LOGGED && may_replay(ME) && !whole(t) ->
        cells[t] = roots[t];
        printf("a recoverer: puts the rows of transaction %d at %d\n", t, ts[t]) }
    :: atomic { choose(o, may_free); release(o); o = 0 }
#ifdef LATE_REQUEST
    :: atomic { choose_lock(may_come_late);
        late = true;
        locked_by(o, r) = 1 + t;
        printf("member %d: gets a request of transaction %d for root %d behind its release\n",
            o, t, r);
        r = 0; o = 0 }
#endif
    od
}

/* ---------------------------------------------------------------- a member */

#define is_inside(t) (state[t] == LOCKING || state[t] == TICKED || state[t] == LOGGED)
#ifdef ACKNOWLEDGE_UNAPPLIED
#define rests_on_dead(t, m) false
#else
#define rests_on_dead(t, m) (home[t] == (m) && (state[t] == TICKED || state[t] == LOGGED) && \
    !all_members2(is_worth, t))
#endif
#ifdef MOVE_WITHOUT_DRAINING
#define drains(m) true
#else
#define drains(m) (leaving == NOBODY || owner[leaving] != (m) || locked_by(m, leaving) == 0)
#endif
#ifdef CHANGE_WITHOUT_DRAINING
#define is_quiet(t, m) true
#else
#define is_quiet(t, m) (home[t] != (m) || !is_inside(t))
#endif
#define is_true(m) (!rests_on_dead(0, m) && !rests_on_dead(1, m) && drains(m) && \
    (!closed[m] || is_quiet(0, m) && is_quiet(1, m)))
#ifdef DEATH_WITHOUT_CLOCK
#define says_clock (dead == 0)
#elif defined(MOVE_WITHOUT_CLOCK)
#define says_clock (leaving == NOBODY)
#else
#define says_clock true
#endif
#ifdef VERSION_NOT_MERGED
#define follow_version(m) skip
#else
#define follow_version(m) raise(last[m], floor)
#endif

#ifdef DROP_DEAD_WATERMARK
#define counted_dead 0
#else
#define counted_dead dead
#endif
#ifdef JOIN_COMMITS_EARLY
#define may_work members
#else
#define may_work working
#endif
/* Whoever held it was recovered. */
#ifdef FREE_AT_DEATH
#define is_gone(t, m) (!has(view[m], home[t]))
#elif defined(DROP_DEAD_WATERMARK)
#define is_gone(t, m) (!has(view[m] | dead, home[t]))
#elif defined(KEEP_LOCKS_OF_THE_DEAD)
#define is_gone(t, m) false
#else
#define is_gone(t, m) (!has(view[m] | view_dead[m], home[t]))
#endif
#define free_gone(r, m) \
    if :: locked_by(m, r) != 0 && is_gone(locked_by(m, r) - 1, m) -> locked_by(m, r) = 0 :: else fi
#ifdef GRANT_WHILE_LEAVING
#define is_leaving(r) false
#else
#define is_leaving(r) (leaving == (r))
#endif
#define owns(r, m) if :: owner[r] == (m) && !is_leaving(r) -> own[m] = with(own[m], r) :: else fi

inline acknowledge(m)
{
    seen[m] = ACKNOWLEDGED;
    if :: says_clock -> raise(said, last[m]) :: else fi;
    printf("member %d: acknowledges, its clock at %d\n", m, last[m])
}

inline see(m)
{
    seen[m] = SEEN;
    view[m] = members;
    view_dead[m] = counted_dead;
    may_log[m] = has(may_work, m);
    closed[m] = gate;
    view_schema[m] = schema;
    follow_version(m);
    own[m] = 0;
    each_member2(owns, m);
    each_member2(free_gone, m);
    printf("member %d: sees members %d, dead %d (masks), owns roots %d; clock %d\n",
        m, view[m], view_dead[m], own[m], last[m]);
    if :: is_true(m) -> acknowledge(m) :: else fi
}

proctype Member(byte m)
{
end:
    do
    :: atomic { alive[m] && session[m] && has(members, m) && seen[m] == UNSEEN -> see(m) }
    :: atomic { alive[m] && session[m] && has(members, m) && seen[m] == SEEN && is_true(m) ->
        acknowledge(m) }
    od
}

/* ---------------------------------------------------------------- the master */

/* Its memory is gone, or can do nothing that is seen. */
#define forget_grant(r, t) held(t, r) = NOBODY
#define forget_lock(r, s) locked_by(s, r) = 0
#define lose(t, s) \
    if :: home[t] == s && state[t] == LOCKING -> state[t] = LOST; has_read[t] = 0; under[t] = 0; \
        each_member2(forget_grant, t) \
       :: else fi
#define forget(s) \
    own[s] = 0; \
    may_log[s] = false; \
    closed[s] = false; \
    view_schema[s] = false; \
    last[s] = 0; \
    each_member2(forget_lock, s); \
    lose(0, s); \
    lose(1, s)

#define has_acknowledged(m) (!has(members, m) || seen[m] == ACKNOWLEDGED)
#define forget_seen(m) seen[m] = UNSEEN
#define write raise(floor, said); said = 0; each_member(forget_seen)

#ifdef GRANT_BEFORE_REPLAY
#define is_applied(t, d) true
#else
#define is_applied(t, d) (home[t] != (d) || !logged(t) || whole(t))
#endif
#ifdef NO_FENCE
#define is_fenced(d) true
#define is_to_fence(d) false
#else
#define is_fenced(d) fenced[d]
#define is_to_fence(d) (has(dead, d) && !fenced[d] && any_member(lives))
#endif
#define is_recovered(d) (!has(dead, d) || is_fenced(d) && is_applied(0, d) && is_applied(1, d))
#ifdef RESERVED_NOT_RECOVERED
#define follow_log(t) if :: has(to_recover, home[t]) && logged(t) -> raise(said, ts[t]) :: else fi
#define follow_logs follow_log(0); follow_log(1)
#else
#define follow_log(d) if :: has(to_recover, d) -> raise(said, reserved[d]) :: else fi
#define follow_logs each_member(follow_log)
#endif
#define hand_on(r, s) if :: has(to_recover, owner[r]) -> owner[r] = s :: else fi
#ifdef ANSWER_UNCERTAIN
#define forget_zombie(d) skip
#else
#define forget_zombie(d) forget(d)
#endif
#define lives(m) (has(members, m) && alive[m] && session[m])
#define idle (dead == 0 && all_members(has_acknowledged))
#ifdef RECOVER_ONE_BY_ONE
#define is_ready(d) (has(dead, d) && is_recovered(d))
#define are_recovered any_member(is_ready)
#else
#define are_recovered all_members(is_recovered)
#endif
#ifdef GRANT_BEFORE_ACKNOWLEDGED
#define may_recover(s) (dead != 0 && has(members, s) && are_recovered)
#else
#define may_recover(s) (dead != 0 && has(members, s) && are_recovered && \
    all_members(has_acknowledged))
#endif
#ifdef JOIN_BESIDE_THE_DEAD
#define may_let_work all_members(has_acknowledged)
#else
#define may_let_work idle
#endif
#ifdef CHANGE_BESIDE_THE_DEAD
#define may_change all_members(has_acknowledged)
#else
#define may_change idle
#endif

#define is_to_notice(d) (has(members, d) && !session[d])
#ifdef MOVE_NOT_WITHDRAWN
#define withdraw gate = false
#else
#define withdraw gate = false; leaving = NOBODY
#endif

inline notice(d)
{
    members = without(members, d);
    working = without(working, d);
    dead = with(dead, d);
    withdraw;
    write;
    printf("master: member %d is dead, and owns nothing (death 1)\n", d)
}

inline recovered(s)
{
    follow_logs;
    each_member2(hand_on, s);
    printf("master: members %d (mask) are recovered, their roots go to member %d (death 2)\n",
        to_recover, s);
    dead = dead & ~to_recover;
    to_recover = 0;
    if :: dead == 0 -> working = members :: else fi;
    write
}

proctype Master()
{
    byte m;
end:
    do
    :: atomic { choose(m, is_to_notice); notice(m); m = 0 }
    /* By whoever lives: a recoverer, its successor. */
    :: atomic { choose(m, is_to_fence);
        fenced[m] = true;
        forget_zombie(m);
        printf("a recoverer: fences the log of member %d\n", m);
        m = 0 }
    :: atomic { choose(m, may_recover);
#ifdef RECOVER_ONE_BY_ONE
        if
        :: is_ready(0) -> to_recover = 1
        :: is_ready(1) -> to_recover = 2
        :: is_ready(2) -> to_recover = 4
        fi;
#else
        to_recover = dead;
#endif
        recovered(m);
        m = 0 }
    :: atomic { planned == JOIN && !done && all_members(has_acknowledged) ->
        done = true;
        members = with(members, MEMBERS - 1);
        printf("master: member %d joins, and may not commit\n", MEMBERS - 1);
        write }
    :: atomic { may_let_work && working != members ->
        working = members;
        printf("master: all members may commit\n");
        write }
    :: atomic { planned == MOVE && !done && idle && leaving == NOBODY ->
        leaving = 1;
        printf("master: root 1 is leaving member %d\n", owner[1]);
        write }
    :: atomic { planned == MOVE && idle && leaving != NOBODY ->
        done = true;
        if
        :: has(working, 0) && owner[leaving] != 0 -> owner[leaving] = 0
        :: has(working, 1) && owner[leaving] != 1 -> owner[leaving] = 1
        :: has(working, 2) && owner[leaving] != 2 -> owner[leaving] = 2
        :: else -> skip         /* nobody is left to move it to */
        fi;
        printf("master: root 1 goes to member %d\n", owner[1]);
        leaving = NOBODY;
        write }
    :: atomic { planned == CHANGE && !done && may_change && !gate ->
        gate = true;
        printf("master: closes the gate\n");
        write }
    :: atomic { planned == CHANGE && may_change && gate ->
        done = true;
        gate = false;
        schema = true;
        printf("master: changes the schema, opens the gate\n");
        if :: (!logged(0) || whole(0)) && (!logged(1) || whole(1)) :: else ->
            printf("SCHEMA: a commit under the old one is not applied\n"); assert(false) fi;
        write }
    od
}

/* ---------------------------------------------------------------- faults */

inline kill(s)
{
    alive[s] = false;
    session[s] = false;
    view[s] = 0;
    view_dead[s] = 0;
    forget(s);
    printf("FAULT: member %d is killed\n", s)
}

inline suspect(s)
{
    session[s] = false;
    printf("FAULT: member %d loses its session, and goes on\n", s)
}

#define may_kill(s) (crashes < CRASHES && works(s) && has(members | dead, s))
#define may_suspect(s) (crashes < CRASHES && session[s] && has(members, s))

proctype Faults()
{
    byte s;
end:
    do
    :: atomic { choose(s, may_kill); crashes++; kill(s); s = 0 }
    :: atomic { choose(s, may_suspect); crashes++; suspect(s); s = 0 }
    od
}

/* ---------------------------------------------------------------- readers */

#define NEXT (snapshot + 1)
#define in_flight(t) (state[t] == TICKED || state[t] == LOGGED)
#define holds_back(t, s) (home[t] == (s) && in_flight(t) && ts[t] <= NEXT)
#define counts(m, s) has(view[m] | view_dead[m], s)
/* No watermark passes what its log has reserved. One that is shown moves the clock on. */
#define permits(s, m) (!counts(m, s) || !holds_back(0, s) && !holds_back(1, s) && \
    reserved[s] >= NEXT)
#define observe(s, m) \
    if :: counts(m, s) && works(s) -> raise(last[s], snapshot) :: else fi
#define may_reserve(m) (works(m) && has(view[m], m) && reserved[m] < LAST_SNAPSHOT)
#define complete(t) (!logged(t) || ts[t] > snapshot || whole(t))
#define may_read(m) (snapshot < LAST_SNAPSHOT && alive[m] && has(view[m], m) && \
    all_members2(permits, m))

inline read(m)
{
    snapshot++;
    each_member2(observe, m);
    printf("reader: takes snapshot %d at member %d\n", snapshot, m);
    if :: complete(0) && complete(1) :: else ->
        printf("SNAPSHOT: snapshot %d holds half a transaction\n", snapshot);
        assert(false) fi
}

proctype Readers()
{
    byte m;
end:
    do
    :: atomic { choose(m, may_reserve);
        reserved[m] = LAST_SNAPSHOT;
        printf("member %d: reserves up to %d in its log\n", m, reserved[m]);
        m = 0 }
    :: atomic { choose(m, may_read); read(m); m = 0 }
    od
}

/* ---------------------------------------------------------------- the end of a run */

#define has_ended(t) (logged(t) -> whole(t) : \
    (state[t] == GIVEN_UP || state[t] == LOST || !session[home[t]]))
#define is_free(o, r) (!session[o] || !has(own[o], r) || locked_by(o, r) == 0)
#define has_owner(r) (has(members, owner[r]) && session[owner[r]] && has(own[owner[r]], r) && \
    all_members2(is_free, r))

proctype Monitor()
{
    timeout ->
    if
    :: has_ended(0) && has_ended(1) && all_members(has_owner) && dead == 0 && members == working
    :: else -> printf("STUCK: something has not ended\n"); assert(false)
    fi
}

#define everybody ((1 << MEMBERS) - 1)
#define begin(m) \
    alive[m] = true; \
    session[m] = true; \
    owner[m] = (has(members, m) -> m : 1); \
    if :: has(members, m) -> seen[m] = ACKNOWLEDGED; view[m] = members; may_log[m] = true :: else fi
#define begin_own(m) if :: has(members, m) -> each_member2(owns, m) :: else fi

init
{
    byte i;
    atomic {
#ifdef CONFIGURATION            /* one of eight, to check them one by one */
        roots[1] = (CONFIGURATION & 1 -> 6 : 3);
        planned = CONFIGURATION >> 1;
#else
        if :: roots[1] = 3 :: roots[1] = 6 fi;
        if :: planned = NOTHING :: planned = JOIN :: planned = MOVE :: planned = CHANGE fi;
#endif
        roots[0] = 3;
#ifdef HOMES                    /* the two coordinators, one of nine */
        home[0] = HOMES / 3;
        home[1] = HOMES % 3;
#else
        if :: home[0] = 0 :: home[0] = 1 :: home[0] = 2 fi;
        if :: home[1] = 0 :: home[1] = 1 :: home[1] = 2 fi;
#endif
        members = (planned == JOIN -> without(everybody, MEMBERS - 1) : everybody);
        working = members;
        each_member(begin);
        each_member(begin_own);
        for (i : 0 .. 2 * MEMBERS - 1) { grantor[i] = NOBODY };
        run Transaction(0); run Transaction(1);
        for (i : 0 .. MEMBERS - 1) { run Member(i) };
        run Master();
        run Faults();
        run Readers();
        run Monitor();
        i = 0
    }
}
