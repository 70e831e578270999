/*
 * Lanes (docs/protocols/lanes.md): sums per group that transactions of several members add to without
 * a lock on the group. Each member writes the cells of its own lane; a cell is what the commits of
 * its lane have added up to, versioned by timestamp; a group is the sum over its lanes.
 *
 * Three members, two lanes, CRASHES faults. Members 0 and 1 have lanes 0 and 1. Member 2 has none,
 * until it gets that of a member that is dead and recovered. A fault is a kill or a lost session, as
 * in commit.pml. Three transactions, each at any member that has a lane: 0 inserts a row into group 0,
 * 1 deletes an older row from group 0, 2 moves the row of 0 to group 1 and changes its value. So a
 * lane may have fewer than no rows of a group, and no rows but a sum. Processes: the transactions, the log
 * stages, the appliers, the master with recovery, the build, the faults, the readers, the monitor.
 *
 * Checked: by assertions, over every interleaving, and for states without successors.
 *   OWNER      a cell is appended only by the member that the assignment gives its lane to   (I1)
 *   RISING     the timestamps of a lane's batches strictly rise, over all its owners         (I2)
 *   CACHE      an appended cell is the sum of what all batches of its lane have added        (I2, I6)
 *   TOTAL      at each snapshot that was handed out, from the build's on, the lanes of a group
 *              sum up to the committed contributions at or below it, and stay so             (I3, I4, I5)
 *   SNAPSHOT   no batch is appended at or below a snapshot that was handed out
 *   NOT STUCK  where nothing can happen any more, all batches are in the store, all dead members
 *              are recovered, and each transaction has ended that could begin
 *
 * Left out, and why that is sound for these properties:
 * - Time, a zombie's learning, the master, the store: as in commit.pml. No tick skips a timestamp:
 *   clocks differ by the commits and snapshots that their members know.
 * - Locks on rows, and who grants them: locks.pml. Here transaction 2 waits until 0 is in the store,
 *   and merges its timestamp. Joins: stars.pml.
 * - Acknowledgements of a death. A lane has one owner, and no other member rests on it.
 * - Reserved timestamps and late joining: locks.pml. Member 2 counts from the beginning.
 * - That a cell is forgotten after its last use. A cell that no transaction refers to has the value
 *   that the store has (CACHE), so reading it again changes nothing.
 * - Late puts of a zombie, and repeated replay. They have the timestamp and bytes of a put that
 *   recovery has already made. In REPLAY_ADDS they would not.
 * - Catalogs. The view is counted by every transaction. That no transaction runs across the
 *   change of the catalog that creates it is property SCHEMA of locks.pml. A reader uses the view from the
 *   end of the build on, at snapshots not before the build's.
 * - Limits of sums. A transaction that is refused for one leaves all cells as they were.
 *
 * Broken variants, each by a -D: CACHE_KEPT, CACHE_NOT_RESTORED, READ_IN_FLIGHT, READ_REPLACES,
 * LANE_GIVEN_EARLY, LANE_WITHOUT_FENCE, LANE_WITHOUT_CLOCK, WRITER_NOT_IN_KEY, REPLAY_ADDS,
 * CELL_REMOVED, GROUP_REMOVED, BASE_PER_RANGE, BASE_WITH_LANES, WATERMARK_EARLY.
 */

#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LAST_SNAPSHOT
#define LAST_SNAPSHOT 3         /* snapshots handed out: 0 to this */
#endif
#define MEMBERS 3
#define LANES 2
#define TRANSACTIONS 3          /* and as many batches, at most */
#define NOBODY 15
#define NEWEST 15

/* Life of a transaction. READING: its cells are being read. LOST: with its member. */
#define IDLE 0
#define READING 1
#define WAITING 2
#define BATCHED 3
#define GIVEN_UP 4
#define LOST 5

/* Life of a batch; it has the number of its first transaction. */
#define NONE 0
#define TICKED 1
#define LOGGED 2
#define APPLIED 3
#define REFUSED 4

byte state[TRANSACTIONS];
byte home[TRANSACTIONS];                /* the member that runs it */
byte batch[TRANSACTIONS] = NOBODY;
short read_rows[TRANSACTIONS * 2];      /* [transaction * 2 + group]: what it has read of a cell */
short read_sum[TRANSACTIONS * 2];
byte to_set[TRANSACTIONS];              /* the groups that it reads, a mask */

byte stage[TRANSACTIONS];               /* of a batch */
byte writer[TRANSACTIONS];
byte ts[TRANSACTIONS];
byte lane[TRANSACTIONS];
byte groups[TRANSACTIONS];              /* whose cells it has, a mask */
short rows[TRANSACTIONS * 2];           /* [batch * 2 + group]: the cell, as it is put */
short sum[TRANSACTIONS * 2];
#ifdef WRITER_NOT_IN_KEY
byte overwritten[TRANSACTIONS];         /* groups */
#endif
#ifdef REPLAY_ADDS
bool replayed[TRANSACTIONS];
#endif
#ifdef GROUP_REMOVED
byte removed[TRANSACTIONS];             /* groups */
#endif

bool alive[MEMBERS];                    /* false: killed */
bool session[MEMBERS];                  /* false: the master takes it for dead */
bool fenced[MEMBERS];                   /* its log takes no more */
bool gone[MEMBERS];                     /* recovered, and no longer counted */
byte last[MEMBERS];                     /* its hybrid logical clock */
byte lane_of[MEMBERS];
byte owner[LANES];                      /* of a lane: the assignment */
byte known[MEMBERS];                    /* groups whose cell's value it knows, a mask */
short cache_rows[MEMBERS * 2];          /* [member * 2 + group] */
short cache_sum[MEMBERS * 2];

byte building;                          /* the step of the build */
byte built_at;                          /* its snapshot */
short base_rows[2];                     /* the base lane */
short base_sum[2];
bool readable;
#ifdef BASE_PER_RANGE
short range_rows, range_sum;
byte range_at;
#endif

byte snapshot;                          /* the highest handed out */
byte crashes;
bool refused;                           /* the log had no room, once */

/* Of one step; 0 between steps. */
byte b, c, g, l, s, found;
short rows_found, sum_found, rows_total, sum_total, rows_true, sum_true;

#define has(mask, i) (((mask) & (1 << (i))) != 0)
#define with(mask, i) ((mask) | (1 << (i)))
#define raise(clock, to) if :: clock < (to) -> clock = to :: else fi

#define any_member(p) (p(0) || p(1) || p(2))
#define all_members(p) (p(0) && p(1) && p(2))
#define each_member(p) p(0); p(1); p(2)
#define all_members2(p, x) (p(0, x) && p(1, x) && p(2, x))
#define any(p) (p(0) || p(1) || p(2))
#define all(p) (p(0) && p(1) && p(2))
#define any2(p, x) (p(0, x) || p(1, x) || p(2, x))
#define all2(p, x) (p(0, x) && p(1, x) && p(2, x))
#define each2(p, x) p(0, x); p(1, x); p(2, x)
#define choose(x, p) if :: p(0) -> x = 0 :: p(1) -> x = 1 :: p(2) -> x = 2 fi

/* What the transactions add: row x of value 1 is inserted; row y of value 2, older than the view, is
   deleted; row x moves to the other group, and its value becomes 2. */
#define touched(t) ((t) == 2 -> 3 : 1)
#define adds_rows(t, g) ((g) == 1 -> ((t) == 2 -> 1 : 0) : ((t) == 0 -> 1 : -1))
#define adds_sum(t, g) ((g) == 1 -> ((t) == 2 -> 2 : 0) : ((t) == 0 -> 1 : ((t) == 1 -> -2 : -1)))
/* The rows that are older than the view: y in group 0, and one of value 3 in group 1. The relation has
   two ranges of keys: row x is in range 0, all others are in range 1. */
#define old_rows(g) 1
#define old_sum(g) ((g) == 0 -> 2 : 3)
#define range_of(t) ((t) == 1 -> 1 : 0)

#define logged(b) (stage[b] == LOGGED || stage[b] == APPLIED)
#define cell(b, g) ((b) * 2 + (g))

/* ---------------------------------------------------------------- the store, and the truth */

/* The newest version at or below `at` of lane `l`'s cell of group `g`. */
inline newest(l, g, at)
{
    found = NOBODY;
    for (b : 0 .. TRANSACTIONS - 1) {
        if
        :: stage[b] == APPLIED && lane[b] == l && has(groups[b], g) && ts[b] <= at &&
            (found == NOBODY || ts[b] > ts[found]) -> found = b
        :: else
        fi
    };
    if
    :: found == NOBODY -> rows_found = 0; sum_found = 0
    :: else -> rows_found = rows[cell(found, g)]; sum_found = sum[cell(found, g)]
    fi;
#ifdef GROUP_REMOVED
    for (b : 0 .. TRANSACTIONS - 1) {
        if
        :: found != NOBODY && stage[b] == APPLIED && has(removed[b], g) && ts[b] <= at &&
            ts[b] > ts[found] -> rows_found = 0; sum_found = 0
        :: else
        fi
    };
#endif
    b = 0; found = 0
}

/* The sum over the lanes that commits write. */
inline lanes_at(g, at)
{
    rows_total = 0; sum_total = 0;
#ifdef WRITER_NOT_IN_KEY
    /* One cell per commit, under (group, timestamp), with what it adds. */
    for (c : 0 .. TRANSACTIONS - 1) {
        if
        :: batch[c] != NOBODY && stage[batch[c]] == APPLIED && ts[batch[c]] <= at &&
            !has(overwritten[batch[c]], g) ->
            rows_total = rows_total + adds_rows(c, g); sum_total = sum_total + adds_sum(c, g)
        :: else
        fi
    };
#else
    for (l : 0 .. LANES - 1) {
        newest(l, g, at);
        rows_total = rows_total + rows_found; sum_total = sum_total + sum_found
    };
#endif
    l = 0; c = 0; rows_found = 0; sum_found = 0
}

/* What the view is by its definition, over the rows in range `r` (2: all). */
inline contributions(g, at, r)
{
    rows_true = (r != 0 -> old_rows(g) : 0); sum_true = (r != 0 -> old_sum(g) : 0);
    for (c : 0 .. TRANSACTIONS - 1) {
        if
        :: batch[c] != NOBODY && logged(batch[c]) && ts[batch[c]] <= at &&
            (r == 2 || r == range_of(c)) ->
            rows_true = rows_true + adds_rows(c, g); sum_true = sum_true + adds_sum(c, g)
        :: else
        fi
    };
    c = 0
}

/* At every snapshot that a reader may have, again after each put: it stays as it is. */
inline compare()
{
    if
    :: readable ->
        for (s : built_at .. snapshot) {
            for (g : 0 .. 1) {
                lanes_at(g, s);
                contributions(g, s, 2);
                if
                :: rows_total + base_rows[g] == rows_true && sum_total + base_sum[g] == sum_true
                :: else ->
                    printf("TOTAL: group %d at snapshot %d is %d rows, sum %d; should be %d, %d\n", g, s,
                        rows_total + base_rows[g], sum_total + base_sum[g], rows_true, sum_true);
                    assert(false)
                fi
            }
        };
        s = 0; g = 0; rows_total = 0; sum_total = 0; rows_true = 0; sum_true = 0
    :: else
    fi
}

/* ---------------------------------------------------------------- a transaction */

#define works(m) (alive[m] && !fenced[m])
#define may_run(m) (works(m) && lane_of[m] != NOBODY)
#define has_rows(t) ((t) != 2 || batch[0] != NOBODY && stage[batch[0]] == APPLIED)
#define is_to_read(t, m, g) (has(touched(t), g) && unknown(m, g))
#ifdef READ_IN_FLIGHT
#define unknown(m, g) true      /* the cell was forgotten, whoever refers to it */
#else
#define unknown(m, g) (!has(known[m], g))
#endif
#define forget_read(t) \
    read_rows[cell(t, 0)] = 0; read_rows[cell(t, 1)] = 0; \
    read_sum[cell(t, 0)] = 0; read_sum[cell(t, 1)] = 0; to_set[t] = 0

/* Its locks are granted; what it adds is computed; cells whose value is not known are read. */
inline prepare(t, m)
{
    home[t] = m;
    if :: t == 2 -> raise(last[m], ts[batch[0]]) :: else fi;
    state[t] = READING;
    for (g : 0 .. 1) {
        if
        :: is_to_read(t, m, g) ->
            newest(lane_of[m], g, NEWEST);
            read_rows[cell(t, g)] = rows_found; read_sum[cell(t, g)] = sum_found;
            to_set[t] = with(to_set[t], g);
            printf("member %d: reads its cell of group %d for transaction %d: %d rows, sum %d\n",
                m, g, t, rows_found, sum_found);
            rows_found = 0; sum_found = 0
        :: else
        fi
    };
    if :: to_set[t] == 0 -> state[t] = WAITING :: else fi;
    g = 0;
    printf("member %d: transaction %d has its locks\n", m, t)
}

/* Another transaction may have read the cell and changed it since. */
#ifdef READ_REPLACES
#define is_set(m, g) false
#elif defined(READ_IN_FLIGHT)
#define is_set(m, g) false
#else
#define is_set(m, g) has(known[m], g)
#endif

inline hand_over(t)
{
    for (g : 0 .. 1) {
        if
        :: has(to_set[t], g) && !is_set(home[t], g) ->
            known[home[t]] = with(known[home[t]], g);
            cache_rows[cell(home[t], g)] = read_rows[cell(t, g)];
            cache_sum[cell(home[t], g)] = read_sum[cell(t, g)]
        :: else
        fi
    };
    g = 0;
    forget_read(t);
    state[t] = WAITING;
    printf("member %d: hands transaction %d to the committer\n", home[t], t)
}

proctype Transaction(byte t)
{
    byte m;
end:
    do
    :: atomic { state[t] == IDLE && has_rows(t) -> choose(m, may_run); d_step { prepare(t, m); m = 0 } }
    :: d_step { state[t] == READING && works(home[t]) -> hand_over(t) }
    od
}

/* ---------------------------------------------------------------- a member's committer */

#define waits(t, m) (state[t] == WAITING && home[t] == (m))
#define in_append(b, m) (stage[b] == TICKED && writer[b] == (m))
#define first_waiting(m) (waits(0, m) -> 0 : (waits(1, m) -> 1 : 2))

/* A batch of all that wait, at one timestamp. What they add is added to the cells that are known. */
inline new_batch(m, n)
{
    stage[n] = TICKED;
    writer[n] = m;
    lane[n] = lane_of[m];
    for (c : 0 .. TRANSACTIONS - 1) {
        if
        :: waits(c, m) ->
            state[c] = BATCHED;
            batch[c] = n;
            groups[n] = groups[n] | touched(c);
            for (g : 0 .. 1) {
                cache_rows[cell(m, g)] = cache_rows[cell(m, g)] + adds_rows(c, g);
                cache_sum[cell(m, g)] = cache_sum[cell(m, g)] + adds_sum(c, g)
            };
            printf("member %d: transaction %d is in batch %d\n", m, c, n)
        :: else
        fi
    };
    c = 0;
    ts[n] = last[m];
    for (g : 0 .. 1) {
        if
        :: has(groups[n], g) ->
            rows[cell(n, g)] = cache_rows[cell(m, g)];
            sum[cell(n, g)] = cache_sum[cell(m, g)];
            printf("member %d: batch %d at %d, lane %d: group %d is %d rows, sum %d\n",
                m, n, ts[n], lane[n], g, rows[cell(n, g)], sum[cell(n, g)])
        :: else
        fi
    };
    g = 0
}

/* The store gets a cell as it is in the log, except in variants. */
inline stored_form(n)
{
    for (g : 0 .. 1) {
        if
        :: has(groups[n], g) && rows[cell(n, g)] == 0 ->
#ifdef CELL_REMOVED
            sum[cell(n, g)] = 0;
            printf("member %d: removes its cell of group %d, which has no rows\n", writer[n], g)
#elif defined(GROUP_REMOVED)
            removed[n] = with(removed[n], g);
            printf("member %d: removes all cells of group %d, of which its own has no rows\n",
                writer[n], g)
#else
            skip
#endif
        :: else
        fi
    };
    g = 0
}

#define is_sum_of_lane(n, g) (!has(groups[n], g) || \
    rows[cell(n, g)] == rows_true && sum[cell(n, g)] == sum_true)
#define is_earlier(c, n) ((c) == (n) || !logged(c) || lane[c] != lane[n] || ts[c] < ts[n])

inline append(n)
{
    stage[n] = LOGGED;
    printf("member %d: appends batch %d: committed at %d\n", writer[n], n, ts[n]);
    if :: owner[lane[n]] == writer[n] :: else ->
        printf("OWNER: lane %d belongs to member %d by now\n", lane[n], owner[lane[n]]);
        assert(false) fi;
    if :: all2(is_earlier, n) :: else ->
        printf("RISING: the timestamps of lane %d do not rise\n", lane[n]); assert(false) fi;
    if :: ts[n] > snapshot :: else ->
        printf("SNAPSHOT: snapshot %d was handed out before\n", snapshot); assert(false) fi;
    for (g : 0 .. 1) {
        rows_true = 0; sum_true = 0;
        for (c : 0 .. TRANSACTIONS - 1) {
            if
            :: batch[c] != NOBODY && logged(batch[c]) && lane[batch[c]] == lane[n] ->
                rows_true = rows_true + adds_rows(c, g); sum_true = sum_true + adds_sum(c, g)
            :: else
            fi
        };
        if :: is_sum_of_lane(n, g) :: else ->
            printf("CACHE: lane %d has added %d rows, sum %d to group %d\n", lane[n], rows_true,
                sum_true, g);
            assert(false) fi
    };
    g = 0; c = 0; rows_true = 0; sum_true = 0;
    stored_form(n)
}

/* Nothing of it is in the log: the cells get back the values that they had. */
inline give_back(n)
{
    refused = true;
    stage[n] = REFUSED;
    for (c : 0 .. TRANSACTIONS - 1) {
        if
        :: batch[c] == n ->
            state[c] = GIVEN_UP;
            batch[c] = NOBODY;
#ifndef CACHE_NOT_RESTORED
            for (g : 0 .. 1) {
                cache_rows[cell(writer[n], g)] = cache_rows[cell(writer[n], g)] - adds_rows(c, g);
                cache_sum[cell(writer[n], g)] = cache_sum[cell(writer[n], g)] - adds_sum(c, g)
            }
#endif
        :: else
        fi
    };
    groups[n] = 0;
    for (g : 0 .. 1) { rows[cell(n, g)] = 0; sum[cell(n, g)] = 0 };
    c = 0; g = 0;
    printf("member %d: the log has no room for batch %d\n", writer[n], n)
}

#ifdef WRITER_NOT_IN_KEY
#define overwrite(c, n) \
    if :: (c) != (n) && stage[c] == APPLIED && ts[c] == ts[n] -> \
        overwritten[c] = overwritten[c] | groups[n] \
       :: else fi
#else
#define overwrite(c, n) skip
#endif

inline put(n)
{
    stage[n] = APPLIED;
    each2(overwrite, n);
    compare()
}

#define may_append(n) (stage[n] == TICKED && !fenced[writer[n]])
#define may_refuse(n) (stage[n] == TICKED && works(writer[n]) && !refused)
#define may_put(n) (stage[n] == LOGGED && works(writer[n]))

proctype Committer(byte m)
{
    byte n;
end:
    do
    :: d_step { works(m) && any2(waits, m) && !any2(in_append, m) ->
        last[m] = last[m] + 1;
        n = first_waiting(m);
        new_batch(m, n);
        n = 0 }
    od
}

/* An append that was under way at a kill may land, as long as no fence forbids it. */
proctype Logs()
{
    byte n;
end:
    do
    :: atomic { choose(n, may_append); d_step { append(n); n = 0 } }
    :: atomic { choose(n, may_refuse); d_step { give_back(n); n = 0 } }
    :: atomic { choose(n, may_put); d_step {
        printf("member %d: puts batch %d at %d\n", writer[n], n, ts[n]);
        put(n);
        n = 0 } }
    od
}

/* ---------------------------------------------------------------- death, recovery, take-over */

#define lives(m) (alive[m] && session[m])
#define is_dead(m) (!session[m] && !gone[m])
#ifdef LANE_WITHOUT_FENCE
#define may_fence(d) false
#define may_replay(n) (stage[n] == LOGGED && is_dead(writer[n]))
#define is_fenced(d) true
#else
#define may_fence(d) (is_dead(d) && !fenced[d] && any_member(lives))
#define may_replay(n) (stage[n] == LOGGED && is_dead(writer[n]) && fenced[writer[n]])
#define is_fenced(d) fenced[d]
#endif
#define is_put(n, d) (stage[n] != LOGGED || writer[n] != (d))
#define is_recovered(d) (!is_dead(d) || is_fenced(d) && all2(is_put, d))
#define is_laneless(m) (lives(m) && lane_of[m] == NOBODY)
#ifdef LANE_WITHOUT_CLOCK
#define follow(n, m) skip
#else
#define follow(n, m) if :: logged(n) && is_dead(writer[n]) -> raise(last[m], ts[n]) :: else fi
#endif
#define leave(d) if :: is_dead(d) -> gone[d] = true :: else fi

#ifdef CACHE_KEPT
/* Member 2 is the process of the dead member in a new session, and has not forgotten. */
#define keep_cache(m, d) \
    known[m] = known[d]; \
    cache_rows[cell(m, 0)] = cache_rows[cell(d, 0)]; cache_sum[cell(m, 0)] = cache_sum[cell(d, 0)]; \
    cache_rows[cell(m, 1)] = cache_rows[cell(d, 1)]; cache_sum[cell(m, 1)] = cache_sum[cell(d, 1)]
#else
#define keep_cache(m, d) skip
#endif

/* A dead member's lane goes to a member without a lane. */
inline give_lane(l, m)
{
    printf("master: lane %d of member %d goes to member %d\n", l, owner[l], m);
    keep_cache(m, owner[l]);
    lane_of[m] = l;
    owner[l] = m
}

#define is_free(l) (!session[owner[l]])
inline give_lanes()
{
    if
    :: any_member(is_laneless) && is_free(0) -> choose(c, is_laneless); give_lane(0, c)
    :: any_member(is_laneless) && !is_free(0) && is_free(1) -> choose(c, is_laneless); give_lane(1, c)
    :: else
    fi;
    c = 0
}

inline forget(d)
{
    for (c : 0 .. TRANSACTIONS - 1) {
        if
        :: home[c] == d && (state[c] == READING || state[c] == WAITING) ->
            state[c] = LOST;
            forget_read(c)
        :: else
        fi
    };
    c = 0
#ifndef CACHE_KEPT
    ;
    known[d] = 0;
    for (g : 0 .. 1) { cache_rows[cell(d, g)] = 0; cache_sum[cell(d, g)] = 0 };
    g = 0
#endif
}

#ifdef REPLAY_ADDS
#define may_add(n) (stage[n] == APPLIED && is_dead(writer[n]) && fenced[writer[n]] && !replayed[n])
inline add_again(n)
{
    replayed[n] = true;
    for (c : 0 .. TRANSACTIONS - 1) {
        for (g : 0 .. 1) {
            if
            :: batch[c] == n ->
                rows[cell(n, g)] = rows[cell(n, g)] + adds_rows(c, g);
                sum[cell(n, g)] = sum[cell(n, g)] + adds_sum(c, g)
            :: else
            fi
        }
    };
    c = 0; g = 0;
    printf("a recoverer: adds batch %d at %d to the stored cells\n", n, ts[n]);
    compare()
}
#endif

proctype Master()
{
    byte n;
end:
    do
    :: atomic { choose(n, may_fence); d_step {
        fenced[n] = true;
        forget(n);
        printf("a recoverer: fences the log of member %d\n", n);
        n = 0 } }
    :: atomic { choose(n, may_replay); d_step {
        printf("a recoverer: puts batch %d of member %d at %d\n", n, writer[n], ts[n]);
#ifdef REPLAY_ADDS
        replayed[n] = true;
#endif
        put(n);
        n = 0 } }
#ifdef REPLAY_ADDS
    /* It was put before, and is behind the last checkpoint. */
    :: atomic { choose(n, may_add); d_step { add_again(n); n = 0 } }
#endif
    :: d_step { any_member(is_dead) && any_member(lives) && all_members(is_recovered) ->
        printf("master: all dead members are recovered (death 2)\n");
        for (n : 0 .. MEMBERS - 1) { if :: lives(n) -> each2(follow, n) :: else fi };
        each_member(leave);
        give_lanes();
        n = 0 }
#ifdef LANE_GIVEN_EARLY
    :: d_step { any_member(is_dead) && any_member(is_laneless) && (is_free(0) || is_free(1)) ->
        give_lanes() }
#endif
    od
}

/* ---------------------------------------------------------------- the build of the base lane */

#define BEGUN 1
#define HALF 2
#define DONE 3

/* What was there before: the view at one snapshot, less what the lanes have added by then. */
inline put_base(g)
{
    lanes_at(g, built_at);
#ifdef BASE_WITH_LANES
    rows_total = 0; sum_total = 0;
#endif
#ifdef BASE_PER_RANGE
    contributions(g, built_at, 1);
    base_rows[g] = rows_true - rows_total; base_sum[g] = sum_true - sum_total;
    contributions(g, range_at, 0);
    base_rows[g] = base_rows[g] + rows_true; base_sum[g] = base_sum[g] + sum_true;
    printf("builder: reads range 0 at %d, range 1 at %d\n", range_at, built_at);
#else
    contributions(g, built_at, 2);
    base_rows[g] = rows_true - rows_total; base_sum[g] = sum_true - sum_total;
#endif
    printf("builder: base lane of group %d at %d: %d rows, sum %d\n", g, built_at, base_rows[g],
        base_sum[g]);
    rows_total = 0; sum_total = 0; rows_true = 0; sum_true = 0
}

proctype Builder()
{
end:
    do
    :: d_step { building == NONE ->
        building = BEGUN;
        built_at = snapshot;
#ifdef BASE_PER_RANGE
        range_at = snapshot;
#endif
        printf("builder: begins at snapshot %d\n", built_at) }
#ifdef BASE_PER_RANGE
    :: d_step { building == BEGUN && built_at < snapshot -> built_at = snapshot }
#endif
    :: d_step { building == BEGUN -> put_base(0); building = HALF }
    :: d_step { building == HALF -> put_base(1); building = DONE; readable = true; compare() }
    /* Another member leads, and begins again at a later snapshot. */
    :: d_step { building == HALF && built_at < snapshot ->
        building = BEGUN;
        built_at = snapshot;
        printf("builder: another leader begins at snapshot %d\n", built_at) }
    od
}

/* ---------------------------------------------------------------- readers, faults */

#define NEXT (snapshot + 1)
#ifdef WATERMARK_EARLY
#define in_flight(n) (stage[n] == TICKED)
#else
#define in_flight(n) (stage[n] == TICKED || stage[n] == LOGGED)
#endif
#define holds_back(n, m) (writer[n] == (m) && in_flight(n) && ts[n] <= NEXT)
/* A watermark that is reported moves the clock on. That of a dead member stands still. */
#define permits(m) (gone[m] || !any2(holds_back, m) && (works(m) || last[m] >= NEXT))
#define observe(m) if :: !gone[m] && works(m) -> raise(last[m], snapshot) :: else fi

proctype Readers()
{
end:
    do
    :: d_step { snapshot < LAST_SNAPSHOT && all_members(permits) ->
        snapshot++;
        each_member(observe);
        printf("reader: takes snapshot %d\n", snapshot);
        compare() }
    od
}

#define may_kill(m) (crashes < CRASHES && works(m) && !gone[m])
#define may_suspect(m) (crashes < CRASHES && session[m])

proctype Faults()
{
    byte m;
end:
    do
    :: atomic { choose(m, may_kill); d_step {
        crashes++;
        alive[m] = false;
        session[m] = false;
        forget(m);
        printf("FAULT: member %d is killed\n", m);
        m = 0 } }
    :: atomic { choose(m, may_suspect); d_step {
        crashes++;
        session[m] = false;
        printf("FAULT: member %d loses its session, and goes on\n", m);
        m = 0 } }
    od
}

/* ---------------------------------------------------------------- the end of a run */

#define has_ended(t) (state[t] == GIVEN_UP || state[t] == LOST || state[t] == BATCHED || \
    state[t] == IDLE && (!any_member(may_run) || !has_rows(t)))
#define is_stored(n) (stage[n] != LOGGED && (stage[n] != TICKED || fenced[writer[n]]))

proctype Monitor()
{
    timeout ->
    if
    :: all(has_ended) && all(is_stored) && !any_member(is_dead) && readable
    :: !any_member(lives)
    :: else -> printf("STUCK: something has not ended\n"); assert(false)
    fi
}

init
{
    byte i;
    atomic {
        for (i : 0 .. MEMBERS - 1) {
            alive[i] = true;
            session[i] = true;
            lane_of[i] = (i < LANES -> i : NOBODY)
        };
        for (i : 0 .. LANES - 1) { owner[i] = i };
        for (i : 0 .. TRANSACTIONS - 1) { run Transaction(i) };
        for (i : 0 .. MEMBERS - 1) { run Committer(i) };
        run Logs();
        run Master();
        run Builder();
        run Readers();
        run Faults();
        run Monitor();
        i = 0
    }
}
