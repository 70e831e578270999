/*
 * Two-phase commit with presumed abort, and the resolution of what is in doubt.
 *
 * Slave i owns root i at first. Transaction 0 writes all roots, or all but the coordinator's own;
 * transaction 1 writes roots 1 and 2. Either may be the older. CRASHES faults: a kill, or a lost
 * session after which the slave goes on as a zombie (see commit.pml).
 *
 * Checked: by assertions, over every interleaving, and for states without successors.
 *   ATOMIC     no participant aborts what is decided, and nothing is decided that one has aborted
 *   DURABLE    at the decision every participant has its mutations in its log
 *   SERIAL     at the decision each participant has read every earlier decision on its root
 *   RISING     the timestamps of a root's commits strictly rise, over all owners
 *   SNAPSHOT   a snapshot that was handed out is complete, and stays as it is
 *   NOT STUCK  where nothing can happen any more, every transaction that was begun has one outcome
 *              everywhere, what is decided is in the store, no lock is held (so wait-die has left
 *              no deadlock over slaves), every root has an owner with a session
 *
 * Left out, and why that is sound for these properties:
 * - Messages are facts. Once true, a fact may be acted on at any later moment, any number of
 *   times, in any order, or not at all before a fault: delay, loss, repetition, reordering. That
 *   they are sent again until answered is what makes "not stuck" true.
 * - Rounds of PREPARE before the decision only let the set of participants grow; here it is known
 *   from the start. A PREPARE may arrive at any moment. The last root may refuse it without a
 *   cause; after the first fault a coordinator may abort without one (a time-out), whoever has
 *   voted by then. Without a fault none times out: that would hide a deadlock.
 * - A coordinator that is fenced neither begins nor aborts: its successor's answer, and a beginning
 *   just before the fence, are the same to everybody else.
 * - Ticking a vote and logging PREPARED is one step, as are reading a dead slave's log and fencing
 *   it, and putting a participant's rows and unlocking. What may come in between is in commit.pml,
 *   whose rules the take-over here follows: the fence before the reading, the clock noted, roots
 *   granted when all is resolved. A role's `records` stands for the noted clock.
 * - A zombie's late puts: same timestamps, same bytes, and only of what is decided.
 * - A retry of an aborted transaction is another transaction: its messages do not mix with those
 *   of the attempt before. STALE_VOTE shows why they must not.
 * - Time, readers, rows of a root, the master and the store: as in commit.pml.
 *
 * Broken variants, each by a -D: DECISION_NOT_LOGGED, PRESUME_COMMIT, FORGET_BEFORE_APPLIED,
 * UNLOCK_ON_VOTE, VOTE_BEFORE_LOGGED, WATERMARK_PAST_VOTE, DECISION_NOT_MERGED,
 * ANSWER_BEFORE_FENCE, CHECKPOINT_PAST_PREPARED, CHECKPOINT_PAST_DECISION, APPLIED_WITHOUT_RECORD,
 * GRANT_IN_DOUBT, STALE_VOTE, WAIT_FOR_ANYBODY.
 */

#ifndef SLAVES
#define SLAVES 3
#endif
#ifndef CRASHES
#define CRASHES 2
#endif

#ifndef LAST_SNAPSHOT
#define LAST_SNAPSHOT 2         /* snapshots handed out: 0 to this */
#endif
#define SKIP_BELOW 1            /* a vote of slave 0, whose clock is fast, may skip one below this */

/* A transaction at its coordinator. */
#define IDLE 0
#define COLLECTING 1
#define DECIDED 2
#define ABORTED 3
#define ENDED 4

/* A transaction at a participant. */
#define NONE 0
#define VOLATILE 1              /* voted, not logged: only in VOTE_BEFORE_LOGGED */
#define PREPARED 2
#define COMMITTED 3
#define APPLIED 4
#define GIVEN_UP 5

byte phase[2];
byte coordinator[2];
byte participants[2];                   /* bit masks of roots */
byte older;                             /* the transaction that may wait for the other */
byte voted[2];                          /* VOTE yes was sent: bit mask */
bool voted_no[2];
bool decision[2];                       /* the DECISION is durable */
bool abort_sent[2];
byte ts[2];                             /* of the decision */

byte status[2 * SLAVES];                /* [transaction * SLAVES + root] */
byte vote[2 * SLAVES];
bool put[2 * SLAVES];                   /* its row is in the store */
bool has_read[2 * SLAVES];              /* it read the other's row */

bool alive[SLAVES];
bool session[SLAVES];
bool fenced[SLAVES];                    /* taken over: its log takes no more */
byte last[SLAVES];                      /* hybrid logical clocks */
byte server[SLAVES];                    /* of a root: the slave that owns it */
bool recovering[SLAVES];                /* of a root: its locks are not granted */
byte records[SLAVES];                   /* of a root: the highest timestamp in its log */

byte snapshot;
byte crashes;
#ifdef DECISION_NOT_LOGGED
bool told[2];                           /* COMMIT was sent; nothing is logged */
#endif
#ifdef ANSWER_BEFORE_FENCE
bool answering[SLAVES];                 /* a successor answers for it, before the fence */
#endif

#define EVERY_ROOT ((1 << SLAVES) - 1)
#define at(t, r) ((t) * SLAVES + (r))
#define takes_part(t, r) ((participants[t] & (1 << (r))) != 0)
#define other (1 - t)
#define raise(clock, to) if :: clock < (to) -> clock = to :: else fi

#if SLAVES == 3
#define all_slaves(p) (p(0) && p(1) && p(2))
#define each_slave(p) p(0); p(1); p(2)
#define all_of(p, t) (p(t, 0) && p(t, 1) && p(t, 2))
#define each_of(p, t) p(t, 0); p(t, 1); p(t, 2)
#else
#define all_slaves(p) (p(0) && p(1))
#define each_slave(p) p(0); p(1)
#define all_of(p, t) (p(t, 0) && p(t, 1))
#define each_of(p, t) p(t, 0); p(t, 1)
#endif

/* ---------------------------------------------------------------- the coordinator */

#define ME coordinator[t]
#define is_prepared(t, r) (!takes_part(t, r) || status[at(t, r)] == PREPARED)
#define votes_rise(t, r) if :: takes_part(t, r) -> raise(ts[t], vote[at(t, r)]) :: else fi
#define both(r) (takes_part(0, r) && takes_part(1, r))
#define reads_other(t, r) (!both(r) || !decision[other] || has_read[at(t, r)])
#define above_other(t, r) (!both(r) || !decision[other] || ts[t] > ts[other])
#define has_compared(t, r) has_read[at(t, r)] = false
#define is_applied(t, r) (!takes_part(t, r) || status[at(t, r)] == APPLIED)

#ifdef STALE_VOTE
/* Transaction 1 is the second attempt of 0, under the same id: the first one's votes count too. */
#define all_voted(t) (((voted[t] | (t == 1 -> voted[0] : 0)) & participants[t]) == participants[t])
#define may_begin(t) (t == 0 || phase[0] == ABORTED)
#else
#define all_voted(t) (voted[t] == participants[t])
#define may_begin(t) true
#endif
#ifdef APPLIED_WITHOUT_RECORD
#define has_put(t, r) (!takes_part(t, r) || put[at(t, r)])
#define may_forget(t) all_of(has_put, t)
#elif defined(FORGET_BEFORE_APPLIED)
#define may_forget(t) true
#else
#define may_forget(t) all_of(is_applied, t)
#endif

inline decide()
{
    /* The commit point. */
    phase[t] = DECIDED;
    last[ME] = last[ME] + 1;
    ts[t] = last[ME];
    each_of(votes_rise, t);
    raise(last[ME], ts[t]);
#ifdef DECISION_NOT_LOGGED
    told[t] = true;
    printf("slave %d: sends COMMIT %d of transaction %d, and logs nothing\n", ME, ts[t], t);
#else
    decision[t] = true;
    printf("slave %d: logs DECISION of transaction %d at %d, sends COMMIT\n", ME, t, ts[t]);
    if :: all_of(is_prepared, t) :: else ->
        printf("DURABLE: a participant's log does not have it\n"); assert(false) fi;
    if :: all_of(reads_other, t) :: else ->
        printf("SERIAL: a commit before it was not read\n"); assert(false) fi;
    if :: all_of(above_other, t) :: else ->
        printf("RISING: a root's timestamps do not rise\n"); assert(false) fi;
    if :: ts[t] > snapshot :: else ->
        printf("SNAPSHOT: snapshot %d was handed out before\n", snapshot); assert(false) fi;
#endif
    each_of(has_compared, t)
}

proctype Coordinator(byte t)
{
end_begin:
    atomic { alive[ME] && !fenced[ME] && may_begin(t) ->
        phase[t] = COLLECTING;
        printf("slave %d: coordinates transaction %d, sends PREPARE to roots %d (mask)\n",
            ME, t, participants[t]) };
end_collect:
    if
    :: atomic { alive[ME] && all_voted(t) && !fenced[ME] -> decide() }
    :: atomic { alive[ME] && !fenced[ME] && (voted_no[t] || crashes > 0) ->
        phase[t] = ABORTED;
        abort_sent[t] = true;
        printf("slave %d: aborts transaction %d, logs nothing, sends ABORT\n", ME, t);
        if :: !decision[t] :: else -> printf("ATOMIC: it is decided\n"); assert(false) fi }
        -> goto end_done
    fi;
    /* Lazily, and if not by it, by nobody: a decision that is kept too long does no harm. */
end_forget:
    atomic { alive[ME] && !fenced[ME] && may_forget(t) ->
        phase[t] = ENDED;
        printf("slave %d: logs END of transaction %d, forgets it\n", ME, t) };
end_done:
    false
}

/* ---------------------------------------------------------------- a participant */

#define has_committed(t, r) (status[at(t, r)] == COMMITTED || status[at(t, r)] == APPLIED)
#if SLAVES == 3
#define outcome_is_commit(t) \
    (decision[t] || has_committed(t, 0) || has_committed(t, 1) || has_committed(t, 2))
#else
#define outcome_is_commit(t) (decision[t] || has_committed(t, 0) || has_committed(t, 1))
#endif

#define has_not_given_up(t, r) (!takes_part(t, r) || status[at(t, r)] != GIVEN_UP)
#define HERE at(t, r)
#define SELF server[r]
#ifdef UNLOCK_ON_VOTE
#define locks(t, r) false
#elif defined(GRANT_IN_DOUBT)
#define locks(t, r) ((status[at(t, r)] == PREPARED || status[at(t, r)] == COMMITTED) && \
    server[r] == r)
#else
#define locks(t, r) (status[at(t, r)] == VOLATILE || status[at(t, r)] == PREPARED || \
    status[at(t, r)] == COMMITTED)
#endif

/* What an inquiry, or a message, tells. A coordinator that collects gives no answer. */
#ifdef CHECKPOINT_PAST_DECISION
#define on_record(t) (decision[t] && phase[t] == DECIDED && !fenced[coordinator[t]])
#else
#define on_record(t) (decision[t] && phase[t] == DECIDED)
#endif
#ifdef DECISION_NOT_LOGGED
#define hears_commit(t) (told[t] && !fenced[coordinator[t]])
#elif defined(PRESUME_COMMIT)
#define hears_commit(t) (on_record(t) || (fenced[coordinator[t]] && !abort_sent[t]))
#else
#define hears_commit(t) on_record(t)
#endif
#ifdef ANSWER_BEFORE_FENCE
#define successor_answers(t) (fenced[coordinator[t]] || answering[coordinator[t]])
#else
#define successor_answers(t) fenced[coordinator[t]]
#endif
#ifdef PRESUME_COMMIT
#define hears_abort(t) abort_sent[t]
#else
#define hears_abort(t) \
    (abort_sent[t] || phase[t] == ENDED || (successor_answers(t) && !on_record(t)))
#endif

inline vote_yes()
{
    if
    :: true -> last[SELF] = last[SELF] + 1
    :: SELF == 0 && last[SELF] < SKIP_BELOW -> last[SELF] = last[SELF] + 2
    fi;
    vote[HERE] = last[SELF];
    voted[t] = voted[t] | (1 << r);
    has_read[HERE] = put[at(other, r)];
#ifdef VOTE_BEFORE_LOGGED
    status[HERE] = VOLATILE;
    printf("slave %d: locks root %d for transaction %d, votes yes at %d\n", SELF, r, t, vote[HERE])
#else
    status[HERE] = PREPARED;
    raise(records[r], vote[HERE]);
    printf("slave %d: locks root %d for transaction %d, logs PREPARED, votes yes at %d\n",
        SELF, r, t, vote[HERE])
#endif
}

#ifdef DECISION_NOT_MERGED
#define merge_decision skip
#else
#define merge_decision raise(last[SELF], ts[t]); raise(records[r], ts[t])
#endif
/* Wait-die: the younger does not wait for a lock. The last root also refuses without a cause. */
#define without_cause(r) (r == SLAVES - 1)
#ifdef WAIT_FOR_ANYBODY
#define may_refuse(t, r) false
#else
#define may_refuse(t, r) (locks(other, r) -> t != older : without_cause(r))
#endif

proctype Participant(byte t; byte r)
{
end_prepare:
    if
    :: atomic { phase[t] != IDLE && alive[SELF] && !recovering[r] && !locks(other, r) ->
        vote_yes() }
    :: atomic { phase[t] != IDLE && alive[SELF] && !recovering[r] && may_refuse(t, r) ->
        voted_no[t] = true;
        status[HERE] = GIVEN_UP;
        printf("slave %d: votes no for root %d of transaction %d\n", SELF, r, t) } -> goto end_done
    :: atomic { hears_abort(t) -> status[HERE] = GIVEN_UP } -> goto end_done
    fi;
end_in_doubt:
    do
#ifdef VOTE_BEFORE_LOGGED
    :: atomic { alive[SELF] && status[HERE] == VOLATILE ->
        status[HERE] = PREPARED;
        raise(records[r], vote[HERE]);
        printf("slave %d: logs PREPARED for root %d of transaction %d\n", SELF, r, t) }
    :: status[HERE] == GIVEN_UP -> goto end_done
#endif
#ifdef CHECKPOINT_PAST_PREPARED
    :: status[HERE] == GIVEN_UP -> goto end_done
#endif
#ifdef APPLIED_WITHOUT_RECORD
    :: atomic { alive[SELF] && hears_commit(t) && !put[HERE] ->
        put[HERE] = true;
        printf("slave %d: puts root %d of transaction %d, sends APPLIED, logs nothing\n",
            SELF, r, t) }
#endif
    :: atomic { alive[SELF] && status[HERE] == PREPARED && hears_commit(t) ->
        status[HERE] = COMMITTED;
        merge_decision;
        printf("slave %d: logs COMMITTED for root %d of transaction %d at %d\n", SELF, r, t, ts[t]);
        if :: all_of(has_not_given_up, t) :: else ->
            printf("ATOMIC: transaction %d is aborted elsewhere\n", t); assert(false) fi }
        -> break
    :: atomic { alive[SELF] && status[HERE] == PREPARED && hears_abort(t) ->
        status[HERE] = GIVEN_UP;
        printf("slave %d: gives up root %d of transaction %d, unlocks\n", SELF, r, t);
        if :: !outcome_is_commit(t) :: else ->
            printf("ATOMIC: transaction %d is committed elsewhere\n", t); assert(false) fi;
        vote[HERE] = 0;
        has_read[HERE] = false }
        -> goto end_done
    od;
end_apply:
    atomic { alive[SELF] ->
        status[HERE] = APPLIED;
        put[HERE] = true;
        vote[HERE] = 0;
        printf("slave %d: puts root %d of transaction %d at %d, unlocks, sends APPLIED\n",
            SELF, r, t, ts[t]) };
end_done:
    false
}

/* ---------------------------------------------------------------- take-over */

/* Memory is lost; a PREPARED record is not. */
#ifdef CHECKPOINT_PAST_PREPARED
#define forgets(t, r) (status[at(t, r)] == VOLATILE || status[at(t, r)] == PREPARED)
#else
#define forgets(t, r) (status[at(t, r)] == VOLATILE)
#endif
#define lose(t, r) if :: forgets(t, r) -> status[at(t, r)] = GIVEN_UP :: else fi
#define inherit(r) \
    if :: server[r] == d -> server[r] = s; recovering[r] = true; lose(0, r); lose(1, r); \
        raise(last[s], records[r]) :: else fi
#define may_take(s, d) ((s) != (d) && session[s])

#define unresolved(t, r) (status[at(t, r)] == PREPARED || status[at(t, r)] == COMMITTED)
#ifdef GRANT_IN_DOUBT
#define resolved(r) true
#else
#define resolved(r) (!unresolved(0, r) && !unresolved(1, r))
#endif
#define may_grant(r) (recovering[r] && alive[server[r]] && session[server[r]] && resolved(r))

inline grant(r)
{
    recovering[r] = false;
    printf("master: root %d goes to slave %d\n", r, server[r])
}

proctype Master()
{
    byte d, s;
end:
    do
    :: atomic {
        if
        :: !session[0] && !fenced[0] -> d = 0
        :: !session[1] && !fenced[1] -> d = 1
#if SLAVES == 3
        :: !session[2] && !fenced[2] -> d = 2
#endif
        fi;
        if
        :: may_take(0, d) -> s = 0
        :: may_take(1, d) -> s = 1
#if SLAVES == 3
        :: may_take(2, d) -> s = 2
#endif
        fi;
        fenced[d] = true;
        each_slave(inherit);
        alive[d] = false;       /* a fenced zombie can do nothing here that is seen */
        last[d] = 0;
        printf("slave %d: takes over slave %d: fences and reads its log\n", s, d);
        d = 0; s = 0 }
#ifdef ANSWER_BEFORE_FENCE
    :: atomic { !session[0] && !answering[0] -> answering[0] = true;
        printf("a successor of slave 0 answers inquiries before it fences the log\n") }
#endif
    :: atomic { may_grant(0) -> grant(0) }
    :: atomic { may_grant(1) -> grant(1) }
#if SLAVES == 3
    :: atomic { may_grant(2) -> grant(2) }
#endif
    od
}

/* ---------------------------------------------------------------- faults */

inline kill(s)
{
    alive[s] = false;
    session[s] = false;
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
    :: atomic { crashes < CRASHES && alive[0] -> crashes++; kill(0) }
    :: atomic { crashes < CRASHES && alive[1] -> crashes++; kill(1) }
    :: atomic { crashes < CRASHES && session[0] -> crashes++; suspect(0) }
    :: atomic { crashes < CRASHES && session[1] -> crashes++; suspect(1) }
#if SLAVES == 3
    :: atomic { crashes < CRASHES && alive[2] -> crashes++; kill(2) }
    :: atomic { crashes < CRASHES && session[2] -> crashes++; suspect(2) }
#endif
    od
}

/* ---------------------------------------------------------------- readers */

#define NEXT (snapshot + 1)
#ifdef WATERMARK_PAST_VOTE
#define in_flight(t, r) (status[at(t, r)] == COMMITTED)
#else
#define in_flight(t, r) (status[at(t, r)] == VOLATILE || unresolved(t, r))
#endif
#define holds_back(t, r) (in_flight(t, r) && vote[at(t, r)] <= NEXT)
#define free_of_votes(r) (!holds_back(0, r) && !holds_back(1, r))
/* An idle slave that answers moves its clock on; a dead one's watermark stands still. */
#define permits(s) (fenced[s] || alive[s] || last[s] >= NEXT)
#define observe(s) if :: alive[s] -> raise(last[s], snapshot) :: else fi
#define is_put(t, r) (!takes_part(t, r) || put[at(t, r)])
#define complete(t) (!decision[t] || ts[t] > snapshot || all_of(is_put, t))

proctype Readers()
{
end:
    do
    :: atomic { snapshot < LAST_SNAPSHOT && all_slaves(free_of_votes) && all_slaves(permits) ->
        snapshot++;
        each_slave(observe);
        printf("reader: takes snapshot %d\n", snapshot);
        if :: complete(0) && complete(1) :: else ->
            printf("SNAPSHOT: snapshot %d holds half a transaction\n", snapshot);
            assert(false) fi }
    od
}

/* ---------------------------------------------------------------- the end of a run */

#define has_ended(t, r) (!takes_part(t, r) || phase[t] == IDLE || \
    status[at(t, r)] == (decision[t] -> APPLIED : GIVEN_UP))
#define settled(r) (!recovering[r] && session[server[r]])

proctype Monitor()
{
    timeout ->
    if
    :: all_of(has_ended, 0) && all_of(has_ended, 1) && all_slaves(settled)
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
            server[i] = i
        };
#ifdef CONFIGURATION            /* one of eight, to check them one by one */
        older = CONFIGURATION & 1;
        coordinator[1] = (CONFIGURATION >> 1) & 1;
        participants[0] = ((CONFIGURATION >> 2) & 1 -> EVERY_ROOT & ~1 : EVERY_ROOT);
#else
        if :: older = 0 :: older = 1 fi;
        if :: coordinator[1] = 0 :: coordinator[1] = 1 fi;
#if SLAVES == 3
        if :: participants[0] = 7 :: participants[0] = 6 fi;
#else
        participants[0] = 3;
#endif
#endif
        participants[1] = (SLAVES == 3 -> 6 : 3);
#ifdef STALE_VOTE
        participants[0] = participants[1];
        coordinator[1] = 0;
#endif
        run Coordinator(0); run Coordinator(1);
        for (i : 0 .. SLAVES - 1) {
            if :: takes_part(0, i) -> run Participant(0, i) :: else fi;
            if :: takes_part(1, i) -> run Participant(1, i) :: else fi
        };
        run Master();
        run Faults();
        run Readers();
        run Monitor();
        i = 0
    }
}
