/*
 * Joins of immediate views (docs/protocols/lanes.md): which locks make what a transaction adds right,
 * when the rows that it joins change at the same time. Nothing of the groups is read or locked.
 *
 * A fact references a parent, and the parent a grandparent. There are one parent, two grandparents and up to
 * two facts. The view groups the facts by a column of the parent and one of the grandparent. Five
 * transactions, a process each: 0 inserts fact 1; 1 deletes fact 0; 2 changes the parent's column;
 * 3 moves the parent from grandparent 0 to 1; 4 changes the column of grandparent 0. Transactions 2 to 4
 * find the facts below, and move what these have added to another group.
 *
 * Checked: by assertions, over every interleaving, and for states without successors.
 *   TOTAL      what was added by the commits up to a timestamp is the view over the rows as of it
 *   NOT STUCK  where nothing can happen any more, every transaction has ended, and no lock is held
 *
 * A timestamp is one above those of the commits whose locks the transaction has had, or above all:
 * so a snapshot may have any set of commits that did not exclude one another.
 *
 * Left out, and why that is sound for these properties:
 * - Members, logs and lanes: lanes.pml. To commit and to put is one step, because locks are kept until
 *   then (commit.pml). Which process grants a lock: locks.pml.
 * - Wait-die. A transaction that finds a lock taken waits, or gives up. One attempt each, as there.
 * - Values. All rows that a transaction reads are 0 or as one other transaction has left them, so it
 *   is enough to note whose changes it has read.
 * - Locks on the facts' roots: transactions 0 and 1 write different facts. A fact that moves is one
 *   that is deleted and one that is inserted.
 *
 * Broken variants, each by a -D: PARENT_NOT_EXCLUSIVE, PARENT_NOT_KEPT, GRANDPARENT_NOT_KEPT,
 * CHANGE_KEEPS_NOTHING, NOT_READ_AGAIN.
 */

#define TRANSACTIONS 5
#define INSERT 0
#define DELETE 1
#define PARENT 2
#define MOVE 3
#define GRANDPARENT 4

/* Names of locks. ROOT is the parent's root lock, which its writers hold. */
#define P 0
#define Q0 1
#define Q1 2
#define ROOT 3
#define NAMES 4
#define NOBODY 15

/* Life of a transaction. The first four are its next read, from the top down, then up. */
#define READ_CHILDREN 0         /* is the parent below the grandparent? */
#define READ_FACTS 1
#define READ_PARENT 2
#define READ_GRANDPARENT 3
#define LOCKING 4
#define COMMITTED 5
#define GIVEN_UP 6
#define IDLE 7

byte state[TRANSACTIONS] = IDLE;
byte read_of[TRANSACTIONS];             /* whose changes it has read: a mask of transactions */
bool below[TRANSACTIONS];               /* the parent is below grandparent 0, as it has read */
byte disturbed[TRANSACTIONS];           /* names that were released since it began to read */
byte ts[TRANSACTIONS];
byte least[TRANSACTIONS];               /* of the commits whose locks it has had */
int added[TRANSACTIONS];                /* a digit of 4 bits per group */

byte exclusive[NAMES] = NOBODY;
byte shared[NAMES];                     /* masks of transactions */
byte released_at[NAMES];                /* the highest timestamp of a commit that has released it */
byte highest;
byte done;                              /* the committed ones, a mask */

byte i, cut, upto;                      /* of one step; 0 between steps */
int total;

#define has(mask, i) (((mask) & (1 << (i))) != 0)
#define with(mask, i) ((mask) | (1 << (i)))
#define raise(clock, to) if :: clock < (to) -> clock = to :: else fi

/* The view over the rows after the transactions of a mask: the parent's column is 0 or 1, that of
   the grandparent 0, 1 or 2. All facts have the same parent, so they are in one group. */
#define group(m) ((has(m, PARENT) -> 3 : 0) + (has(m, MOVE) -> 2 : (has(m, GRANDPARENT) -> 1 : 0)))
#define one(m) (1 << (4 * group(m)))
#define facts(m) ((has(m, DELETE) -> 0 : 1) + (has(m, INSERT) -> 1 : 0))
#define view(m) (facts(m) * one(m))

/* ---------------------------------------------------------------- what it needs */

#define is_change(t) ((t) >= PARENT)
#define is_affected(t) (!is_change(t) || facts(read_of[t]) > 0 && \
    ((t) != GRANDPARENT || below[t]))
#define grandparent_of(m) (has(m, MOVE) -> Q1 : Q0)
#define changed(t) ((t) == GRANDPARENT -> Q0 : P)

#ifdef PARENT_NOT_EXCLUSIVE
#define wants_exclusive(t, n) ((n) == ROOT && ((t) == PARENT || (t) == MOVE))
#else
#define wants_exclusive(t, n) (is_change(t) && (n) == changed(t) || \
    (n) == ROOT && ((t) == PARENT || (t) == MOVE))
#endif
/* The joined rows before and after; the foreign key's check locks the row that a new reference names. */
#define joins(t, n) (is_affected(t) && keeps(t, n) || \
    (t) == INSERT && (n) == P || (t) == MOVE && (n) == Q1)
#define is_joined(t, n) ((n) == P || (n) == grandparent_of(read_of[t]))
#ifdef PARENT_NOT_KEPT
#define keeps(t, n) (is_change(t) && is_joined(t, n))
#elif defined(GRANDPARENT_NOT_KEPT)
#define keeps(t, n) (is_joined(t, n) && (n) == P)
#elif defined(CHANGE_KEEPS_NOTHING)
#define keeps(t, n) (!is_change(t) && is_joined(t, n))
#else
#define keeps(t, n) is_joined(t, n)
#endif
#ifdef PARENT_NOT_EXCLUSIVE
#define wants_shared(t, n) (joins(t, n) || is_change(t) && (n) == changed(t))
#else
#define wants_shared(t, n) (joins(t, n) && !wants_exclusive(t, n))
#endif

#define has_exclusive(t, n) (exclusive[n] == (t))
#define has_lock(t, n) (has_exclusive(t, n) || has(shared[n], t))
#define lacks(t, n) (wants_exclusive(t, n) && !has_exclusive(t, n) || \
    wants_shared(t, n) && !has_lock(t, n))
#define is_free(t, n) ((exclusive[n] == NOBODY || exclusive[n] == (t)) && \
    (!wants_exclusive(t, n) || (shared[n] & ~(1 << (t))) == 0))
#define lacks_any(t) (lacks(t, P) || lacks(t, Q0) || lacks(t, Q1))
#define is_held_up(t) (lacks(t, P) && !is_free(t, P) || lacks(t, Q0) && !is_free(t, Q0) || \
    lacks(t, Q1) && !is_free(t, Q1))
#define may_take(t, n) (lacks(t, n) && is_free(t, n))

inline read_from(t)
{
    state[t] = ((t) == GRANDPARENT -> READ_CHILDREN : (is_change(t) -> READ_FACTS : READ_PARENT));
    read_of[t] = 0;
    below[t] = false;
    disturbed[t] = 0
}

/* If the lock was released since it has read, it reads again. */
inline take(t, n)
{
    if
    :: wants_exclusive(t, n) -> exclusive[n] = t; shared[n] = shared[n] & ~(1 << t)
    :: else -> shared[n] = with(shared[n], t)
    fi;
    raise(least[t], released_at[n]);
    printf("transaction %d: locks %d (0 parent, 1 and 2 grandparents, 3 root)\n", t, n);
    if
#ifdef NOT_READ_AGAIN
    :: false
#else
    :: has(disturbed[t], n) -> read_from(t);
        printf("transaction %d: reads again, the lock was released since\n", t)
#endif
    :: else
    fi
}

inline release(t)
{
    for (i : 0 .. NAMES - 1) {
        if
        :: has_lock(t, i) ->
            if :: exclusive[i] == t -> exclusive[i] = NOBODY :: else fi;
            shared[i] = shared[i] & ~(1 << t);
            raise(released_at[i], ts[t]);
            for (cut : 0 .. TRANSACTIONS - 1) {
                if
                :: cut != t && state[cut] <= LOCKING -> disturbed[cut] = with(disturbed[cut], i)
                :: else
                fi
            };
            cut = 0
        :: else
        fi
    };
    i = 0;
    read_of[t] = 0; below[t] = false; disturbed[t] = 0; least[t] = 0
}

/* What it adds follows from what it has read, and from its own change. */
#define own(t) with(read_of[t], t)
#define additions(t) ((t) == INSERT -> one(read_of[t]) : ((t) == DELETE -> -one(read_of[t]) : \
    (is_affected(t) -> facts(read_of[t]) * (one(own(t)) - one(read_of[t])) : 0)))

inline compare()
{
    for (cut : 0 .. highest) {
        total = 1; upto = 0;
        for (i : 0 .. TRANSACTIONS - 1) {
            if
            :: has(done, i) && ts[i] <= cut -> total = total + added[i]; upto = with(upto, i)
            :: else
            fi
        };
        if :: total == view(upto) :: else ->
            printf("TOTAL: after transactions %d (mask) the groups are %x, should be %x\n", upto, total,
                view(upto));
            assert(false) fi
    };
    i = 0; cut = 0; total = 0; upto = 0
}
inline commit(t)
{
    added[t] = additions(t);
    raise(highest, ts[t]);
    done = with(done, t);
    state[t] = COMMITTED;
    printf("transaction %d: commits at %d, has read transactions %d (mask)\n", t, ts[t], read_of[t]);
    release(t);
    compare()
}

/* ---------------------------------------------------------------- a transaction */

#define note(t, who) if :: has(done, who) -> read_of[t] = with(read_of[t], who) :: else fi

proctype Transaction(byte t)
{
end:
    do
    :: d_step { state[t] == IDLE && (!wants_exclusive(t, ROOT) || exclusive[ROOT] == NOBODY) ->
        if
        :: wants_exclusive(t, ROOT) -> exclusive[ROOT] = t; raise(least[t], released_at[ROOT])
        :: else
        fi;
        read_from(t) }
    :: d_step { state[t] == READ_CHILDREN ->
        below[t] = !has(done, MOVE);
        state[t] = READ_FACTS;
        printf("transaction %d: the parent is below grandparent 0: %d\n", t, below[t]) }
    :: d_step { state[t] == READ_FACTS ->
        note(t, INSERT); note(t, DELETE);
        state[t] = READ_PARENT;
        printf("transaction %d: finds %d facts\n", t, facts(read_of[t])) }
    :: d_step { state[t] == READ_PARENT ->
        note(t, PARENT); note(t, MOVE);
        state[t] = READ_GRANDPARENT;
        printf("transaction %d: reads the parent\n", t) }
    :: d_step { state[t] == READ_GRANDPARENT ->
        note(t, GRANDPARENT);
        state[t] = LOCKING;
        printf("transaction %d: reads the grandparent\n", t) }
    :: d_step { state[t] == LOCKING && may_take(t, P) -> take(t, P) }
    :: d_step { state[t] == LOCKING && may_take(t, Q0) -> take(t, Q0) }
    :: d_step { state[t] == LOCKING && may_take(t, Q1) -> take(t, Q1) }
    :: d_step { state[t] == LOCKING && is_held_up(t) ->
        state[t] = GIVEN_UP;
        printf("transaction %d: gives up\n", t);
        release(t) }
    :: atomic { state[t] == LOCKING && !lacks_any(t) ->
        if :: ts[t] = least[t] + 1 :: ts[t] = highest + 1 fi;
        d_step { commit(t) } }
    od
}

/* ---------------------------------------------------------------- the end of a run */

#define has_ended(t) (state[t] == COMMITTED || state[t] == GIVEN_UP)
#define is_open(n) (exclusive[n] == NOBODY && shared[n] == 0)

proctype Monitor()
{
    timeout ->
    if
    :: has_ended(0) && has_ended(1) && has_ended(2) && has_ended(3) && has_ended(4) && \
        is_open(P) && is_open(Q0) && is_open(Q1) && is_open(ROOT)
    :: else -> printf("STUCK: something has not ended\n"); assert(false)
    fi
}

init
{
    byte t;
    atomic {
        for (t : 0 .. TRANSACTIONS - 1) { run Transaction(t) };
        run Monitor();
        t = 0
    }
}
