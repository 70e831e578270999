/*
 * Guards (decision 60): serializable transactions validate the ranges that they have read, under
 * guards at all members, each committed in the log of the member that runs it.
 *
 * Transactions form a ring: each writes a row of its own, and has read the range of the next one's
 * row. Three members, CRASHES faults: kills and lost sessions, as in locks.pml. CONFIGURATION 1: the
 * last member joins while the others go on; 2: the last transaction has read nothing, and takes no
 * guards. HOMES, if given, is 3 * the coordinator of transaction 0 + that of transaction 1. Processes: the transactions, the members (they see the
 * assignment and acknowledge it), the master, the faults, the monitor.
 *
 * Checked: by assertions, over every interleaving, and for states without successors.
 *   SERIAL     the committed transactions have an order in which each sees those before it alone: not
 *              all of the ring have committed without the row of the next
 *   RISING     timestamps follow this order: what a transaction has not seen is later
 *   NOT STUCK  where nothing can happen any more, every transaction has ended, everything committed
 *              is applied, no guard is left, no member is dead and not recovered
 *
 * Left out, and why that is sound for these properties:
 * - Locks. A row is written by one transaction, and read by range only.
 * - Time, a zombie's learning, the master, recovery, late appends: as in locks.pml.
 * - Rows beside the ranges, and tables without newer commits: they are not read again because the
 *   members say that no commit is there, which is the same as reading them.
 * - A transaction has one attempt; another is another transaction. It may give up at any time after
 *   a fault. A question to a member that cannot answer ends by that.
 * - Snapshots: a transaction reads as early as may be, at its beginning, all that is applied.
 *
 * - The clock in an answer to a question. The code merges it, so that a later attempt reads at a
 *   snapshot that has all that was waited for; no property needs it.
 *
 * Broken variants, each by a -D: GUARDS_NOT_HEEDED, COMMITS_NOT_WAITED_FOR, READ_BEFORE_GUARDED,
 * RELEASE_NOT_MERGED, JOINED_NOT_ASKED, MEMBERS_COMPARED, FREE_AT_DEATH, KEEP_GUARDS_OF_THE_DEAD.
 */

#define MEMBERS 3
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef RING
#define RING 2                          /* transactions */
#endif
#define SKIP_BELOW 1                    /* a tick of member 0, whose clock is fast, may skip one */

/* Life of a transaction. LOST: with its coordinator. */
#define IDLE 0
#define READING 1
#define ASKING 2
#define CHECKED 3
#define TICKED 4
#define LOGGED 5
#define FINISHED 6
#define GIVEN_UP 7
#define LOST 8

/* A member and the newest version of the assignment. */
#define UNSEEN 0
#define SEEN 1
#define ACKNOWLEDGED 2

byte state[RING];
byte home[RING];                        /* its coordinator */
byte ts[RING];
bool stored[RING];                      /* its row is in the store */
bool has_read[RING];                    /* it has read the row of the next */
byte asked[RING];                       /* members that are to guard, in its coordinator's view */
byte asked_at[RING];                    /* the number of changes of members that this view had seen */
byte placed[RING];                      /* those of them that have set the guard */
byte answered[RING];

/* The assignment: masks of members. */
byte members;
byte working;                           /* those of them that may commit */
byte dead;                              /* and not recovered */
byte floor;                             /* the highest clock acknowledged or recovered */
byte said;                              /* the same, for the next version */
bool to_join;

/* A member, and what it has seen of the assignment. */
byte seen[MEMBERS];
byte view[MEMBERS];
byte view_dead[MEMBERS];
byte changes[MEMBERS];                  /* of the members, that it has seen */
bool may_log[MEMBERS];
byte guards[MEMBERS];                   /* mask of transactions */
bool alive[MEMBERS];                    /* false: killed */
bool session[MEMBERS];                  /* false: the master takes it for dead */
bool fenced[MEMBERS];                   /* its log takes no more */
byte last[MEMBERS];                     /* its hybrid logical clock */

byte crashes;

#define has(mask, i) (((mask) & (1 << (i))) != 0)
#define with(mask, i) ((mask) | (1 << (i)))
#define without(mask, i) ((mask) & ~(1 << (i)))
#define raise(clock, to) if :: clock < (to) -> clock = to :: else fi

#define each_member(p) p(0); p(1); p(2)
#define each_member2(p, x) p(0, x); p(1, x); p(2, x)
#define all_members(p) (p(0) && p(1) && p(2))
#define any_member(p) (p(0) || p(1) || p(2))
#define choose(x, p) if :: p(0) -> x = 0 :: p(1) -> x = 1 :: p(2) -> x = 2 fi
#if RING == 2
#define all(p) (p(0) && p(1))
#define all2(p, x) (p(0, x) && p(1, x))
#define each2(p, x) p(0, x); p(1, x)
#else
#define all(p) (p(0) && p(1) && p(2))
#define all2(p, x) (p(0, x) && p(1, x) && p(2, x))
#define each2(p, x) p(0, x); p(1, x); p(2, x)
#endif

#define NEXT ((t + 1) % RING)           /* writes what this one has read */
#define BEFORE ((t + RING - 1) % RING)  /* has read what this one writes */
#define ME home[t]
#define logged(t) (state[t] == LOGGED || state[t] == FINISHED)
#define works(m) (alive[m] && !fenced[m])

/* ---------------------------------------------------------------- guards */

#define nobody_is_dead (view_dead[ME] == 0)
#ifdef JOINED_NOT_ASKED
#define has_all_guards ((asked[t] & ~view[ME]) == 0)
#elif defined(MEMBERS_COMPARED)
#define has_all_guards (asked[t] == view[ME])
#else
#define has_all_guards (asked_at[t] == changes[ME])
#endif
#define may_place(m) (state[t] == ASKING && has(asked[t], m) && !has(placed[t], m) && works(m) && \
    has(view[m], ME))

inline place(m)
{
    placed[t] = with(placed[t], m);
    guards[m] = with(guards[m], t);
    printf("member %d: guards what transaction %d has read\n", m, t)
}

#ifdef COMMITS_NOT_WAITED_FOR
#define is_under_way(u, m) false
#else
#define is_under_way(u, m) (home[u] == (m) && (state[u] == TICKED || state[u] == LOGGED))
#endif
#define may_answer(m) (has(placed[t], m) && !has(answered[t], m) && state[t] == ASKING && \
    works(m) && !is_under_way(NEXT, m))

inline answer(m)
{
    answered[t] = with(answered[t], m);
    printf("member %d: has applied what is in the ranges of transaction %d\n", m, t)
}

#define may_release (state[t] == FINISHED || state[t] == GIVEN_UP)
#define may_free(m) (may_release && works(m) && has(guards[m], t) && has(view[m], ME))
#ifdef RELEASE_NOT_MERGED
#define merge_release(m) skip
#else
#define merge_release(m) raise(last[m], ts[t])
#endif

inline free(m)
{
    guards[m] = without(guards[m], t);
    merge_release(m);
    printf("member %d: ends the guard of transaction %d\n", m, t)
}

/* ---------------------------------------------------------------- a transaction */

#ifdef READ_BEFORE_GUARDED
#define is_changed false
#define is_changed_early (stored[NEXT] && !has_read[t])
#else
#define is_changed (stored[NEXT] && !has_read[t])
#define is_changed_early false
#endif
#if CONFIGURATION == 2
#define is_plain(t) ((t) == RING - 1)
#else
#define is_plain(t) false
#endif
#ifdef GUARDS_NOT_HEEDED
#define is_guarded false
#else
#define is_guarded has(guards[ME], BEFORE)
#endif

#define is_unserial(t) (logged(t) && !has_read[t] && !is_plain(t))

inline commit()
{
    state[t] = LOGGED;
    printf("member %d: appends transaction %d: committed at %d\n", ME, t, ts[t]);
    if :: all(is_unserial) ->
        printf("SERIAL: no committed transaction has read what the next has written\n");
        assert(false) :: else fi;
    if :: !is_plain(t) && logged(NEXT) && !has_read[t] && ts[t] >= ts[NEXT] || \
          !is_plain(t) && logged(NEXT) && has_read[t] && ts[t] <= ts[NEXT] || \
          !is_plain(BEFORE) && logged(BEFORE) && !has_read[BEFORE] && ts[BEFORE] >= ts[t] ->
        printf("RISING: timestamps do not follow the order\n"); assert(false) :: else fi
}

inline give_up()
{
    state[t] = GIVEN_UP;
    asked[t] = 0;
    asked_at[t] = 0;
    placed[t] = 0;
    answered[t] = 0
}

proctype Transaction(byte t)
{
    byte m;
end:
    do
    :: atomic { state[t] == IDLE && works(ME) && may_log[ME] ->
        state[t] = READING;
        printf("member %d: begins transaction %d, reads\n", ME, t);
        if
        :: is_plain(t) -> state[t] = CHECKED; asked[t] = view[ME]; asked_at[t] = changes[ME]
        :: !is_plain(t) && stored[NEXT] ->
            has_read[t] = true;
            raise(last[ME], ts[NEXT])   /* a snapshot is not above the clock */
        :: else
        fi }
    :: atomic { state[t] == READING && works(ME) && nobody_is_dead ->
        if
        :: is_changed_early -> give_up()
        :: else ->
            state[t] = ASKING;
            asked[t] = view[ME];
            asked_at[t] = changes[ME];
            printf("member %d: asks members %d (mask) for transaction %d\n", ME, asked[t], t);
            place(ME)
        fi }
    :: atomic { choose(m, may_place); place(m); m = 0 }
    :: atomic { choose(m, may_answer); answer(m); m = 0 }
    :: atomic { state[t] == ASKING && works(ME) && answered[t] == asked[t] && has_all_guards ->
        if
        :: is_changed ->
            printf("member %d: transaction %d sees the next: a conflict\n", ME, t);
            give_up()
        :: else ->
            state[t] = CHECKED;
            printf("member %d: what transaction %d has read is unchanged\n", ME, t)
        fi }
    :: atomic { state[t] == CHECKED && works(ME) && may_log[ME] && has_all_guards ->
        if
        :: is_guarded ->
            printf("member %d: transaction %d meets a guard\n", ME, t);
            give_up()
        :: else ->
            if
            :: true -> last[ME] = last[ME] + 1
            :: ME == 0 && last[ME] < SKIP_BELOW -> last[ME] = last[ME] + 2
            fi;
            state[t] = TICKED;
            ts[t] = last[ME];
            printf("member %d: hands transaction %d to the log, at %d\n", ME, t, ts[t])
        fi }
    :: atomic { (state[t] == READING || state[t] == ASKING || state[t] == CHECKED) && \
            works(ME) && (crashes > 0 || !has_all_guards && state[t] != READING) ->
        printf("member %d: gives transaction %d up\n", ME, t);
        give_up() }
    /* An append that was under way at a kill may land, as long as no fence forbids it. */
    :: atomic { state[t] == TICKED && !fenced[ME] -> commit() }
    :: atomic { state[t] == LOGGED && works(ME) ->
        state[t] = FINISHED;
        stored[t] = true;
        printf("member %d: puts the row of transaction %d, finishes it\n", ME, t) }
    :: atomic { state[t] == LOGGED && fenced[ME] && !stored[t] ->
        stored[t] = true;
        printf("a recoverer: puts the row of transaction %d\n", t) }
    :: atomic { choose(m, may_free); free(m); m = 0 }
    od
}

/* ---------------------------------------------------------------- a member */

#define is_applied_by(t, m) (home[t] != (m) || state[t] != TICKED && state[t] != LOGGED)
/* Whoever set it was recovered. */
#ifdef FREE_AT_DEATH
#define is_gone(t, m) (!has(view[m], home[t]))
#elif defined(KEEP_GUARDS_OF_THE_DEAD)
#define is_gone(t, m) false
#else
#define is_gone(t, m) (!has(view[m] | view_dead[m], home[t]))
#endif
#define free_gone(t, m) \
    if :: has(guards[m], t) && is_gone(t, m) -> guards[m] = without(guards[m], t) :: else fi

#define is_done(m) (view_dead[m] == 0 || all2(is_applied_by, m))

inline acknowledge(m)
{
    seen[m] = ACKNOWLEDGED;
    raise(said, last[m]);
    printf("member %d: acknowledges, its clock at %d\n", m, last[m])
}

inline see(m)
{
    seen[m] = SEEN;
    if :: view[m] != members -> changes[m]++ :: else fi;
    view[m] = members;
    view_dead[m] = dead;
    may_log[m] = has(working, m);
    raise(last[m], floor);
    each2(free_gone, m);
    printf("member %d: sees members %d, dead %d (masks)\n", m, view[m], view_dead[m]);
    if :: is_done(m) -> acknowledge(m) :: else fi
}

proctype Member(byte m)
{
end:
    do
    :: atomic { alive[m] && session[m] && has(members, m) && seen[m] == UNSEEN -> see(m) }
    :: atomic { alive[m] && session[m] && has(members, m) && seen[m] == SEEN && is_done(m) ->
        acknowledge(m) }
    od
}

/* ---------------------------------------------------------------- the master */

#define lose(t, s) \
    if :: home[t] == s && (state[t] == READING || state[t] == ASKING || state[t] == CHECKED) -> \
        state[t] = LOST; asked[t] = 0; asked_at[t] = 0; placed[t] = 0; answered[t] = 0 \
       :: else fi
#define forget(s) \
    may_log[s] = false; \
    last[s] = 0; \
    guards[s] = 0; \
    each2(lose, s)

#define has_acknowledged(m) (!has(members, m) || seen[m] == ACKNOWLEDGED)
#define forget_seen(m) seen[m] = UNSEEN
#define write raise(floor, said); said = 0; each_member(forget_seen)
#define is_replayed(t, d) (home[t] != (d) || !logged(t) || stored[t])
#define is_recovered(d) (!has(dead, d) || fenced[d] && all2(is_replayed, d))
#define follow_log(t, d) if :: home[t] == d && logged(t) -> raise(said, ts[t]) :: else fi
#define follow(d) if :: has(dead, d) -> each2(follow_log, d) :: else fi
#define is_to_notice(d) (has(members, d) && !session[d])
#define is_to_fence(d) (has(dead, d) && !fenced[d] && any_member(lives))
#define lives(m) (has(members, m) && alive[m] && session[m])

proctype Master()
{
    byte m;
end:
    do
    :: atomic { choose(m, is_to_notice);
        members = without(members, m);
        working = without(working, m);
        dead = with(dead, m);
        write;
        printf("master: member %d is dead (death 1)\n", m);
        m = 0 }
    :: atomic { choose(m, is_to_fence);
        fenced[m] = true;
        forget(m);
        printf("a recoverer: fences the log of member %d\n", m);
        m = 0 }
    :: atomic { dead != 0 && any_member(lives) && all_members(has_acknowledged) && \
            all_members(is_recovered) ->
        each_member(follow);
        printf("master: members %d (mask) are recovered (death 2)\n", dead);
        dead = 0;
        working = members;
        write }
    :: atomic { to_join && all_members(has_acknowledged) ->
        to_join = false;
        members = with(members, MEMBERS - 1);
        printf("master: member %d joins, and may not commit\n", MEMBERS - 1);
        write }
    :: atomic { working != members && dead == 0 && all_members(has_acknowledged) ->
        working = members;
        printf("master: all members may commit\n");
        write }
    od
}

/* ---------------------------------------------------------------- faults */

#define may_kill(s) (crashes < CRASHES && works(s) && has(members | dead, s))
#define may_suspect(s) (crashes < CRASHES && session[s] && has(members, s))

proctype Faults()
{
    byte s;
end:
    do
    :: atomic { choose(s, may_kill);
        crashes++;
        alive[s] = false;
        session[s] = false;
        forget(s);
        printf("FAULT: member %d is killed\n", s);
        s = 0 }
    :: atomic { choose(s, may_suspect);
        crashes++;
        session[s] = false;
        printf("FAULT: member %d loses its session, and goes on\n", s);
        s = 0 }
    od
}

/* ---------------------------------------------------------------- the end of a run */

#define has_ended(t) (logged(t) -> stored[t] : \
    (state[t] == GIVEN_UP || state[t] == LOST || !session[home[t]]))
#define is_free(m) (!lives(m) || guards[m] == 0)

proctype Monitor()
{
    timeout ->
    if
    :: all(has_ended) && all_members(is_free) && dead == 0 && members == working
    :: else -> printf("STUCK: something has not ended\n"); assert(false)
    fi
}

init
{
    byte i;
    atomic {
#if CONFIGURATION == 1
        members = 3;
        to_join = true;
#else
        members = 7;
#endif
        working = members;
        for (i : 0 .. MEMBERS - 1) {
            alive[i] = true;
            session[i] = true;
            if
            :: has(members, i) -> view[i] = members; may_log[i] = true; seen[i] = ACKNOWLEDGED
            :: else
            fi
        };
#ifdef HOMES
        home[0] = HOMES / 3;
        home[1] = HOMES % 3;
        for (i : 2 .. RING - 1) {
#else
        for (i : 0 .. RING - 1) {
#endif
            if :: home[i] = 0 :: home[i] = 1 :: home[i] = 2 fi
        };
        for (i : 0 .. RING - 1) { run Transaction(i) };
        for (i : 0 .. MEMBERS - 1) { run Member(i) };
        run Master();
        run Faults();
        run Monitor();
        i = 0
    }
}
