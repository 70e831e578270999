"""Partial aggregates: the groups of a view over some of the items of its FROM, kept in a state.

Without them, a change of a dimension's row looks up all facts below it. With a partial aggregate of
the facts, it looks up one row for each pair of that row and a group.

**Law** (eager aggregation). Let γ be a GROUP BY over the join of S with other items R, and K the
columns of S that the groups, the arguments or the join with R still read. Then

    γ(S ⋈ R) = γ'(P ⋈ R)    with    P = γ_K(S)

* Joins are linear in their left side, and a row of S joins, or is kept by a LEFT, semi or anti
  join, by its columns K alone. So all rows of a group of P have the same partners, and P ⋈ R is
  S ⋈ R with the rows of each group as one. That holds for NULL in K, for rows without partners and
  for any number of partners.
* P counts its rows, and has COUNT, SUM, MIN and MAX of the arguments that read S alone. γ' adds the
  counts and sums up, and takes the minimum of minima. AVG is a sum divided by a count.
* An argument that also reads R is computed over P ⋈ R. COUNT and SUM of it weigh each row by the
  count of P. MIN, MAX and COUNT(DISTINCT) do not depend on multiplicities.
* COUNT(DISTINCT x) with x over S alone: x becomes one of K.

P is an operator like any other, so S may have a partial aggregate below it in turn, and nothing in
states, stages and look-ups knows of partial aggregates: this is a rewrite of the algebra.

* `texts.py`: columns in expressions that are text.
* `graphs.py`: the joins below an aggregate, as FROM items and conditions in any order.
* `rewriting.py`: the law, applied to an aggregate and the sets S of its partial aggregates.
* `choice.py`: the sets S that lower the estimated cost. A plan of the schema chooses them, and the
  catalog stores the choice with the view, since it decides which states the view has.

Sources: Yan and Larson, "Eager aggregation and lazy aggregation" (VLDB 1995). Cumulus keeps maps of
the i-th order for the same reason.
"""
