// What an operator should look at, from the status of a node. An empty list: all is well.

import { duration, moment, plural } from "./texts.js";

const STALE_BATCHES = 20;
const STALE_S = 60;

/** [{text, cure}] for a document of GET /v1/status. */
export function concerns(status) {
  return [...logs(status), ...nodes(status), ...views(status), ...builds(status), ...groups(status), ...verified(status)];
}

const logs = ({ log }) => log.missing.map((lost) => ({
  text: `The end of the log ${lost.log} is missing: acknowledged commits may be lost.`,
  cure: `It ends at ${lost.ends_at}, and is known to reach ${lost.known_to_reach}.`,
}));

function* nodes({ nodes: cluster }) {
  if (!cluster) return;
  for (const address of cluster.dead) {
    yield { text: `The node ${address} is dead.`, cure: "Another node takes over its work. Start the node again." };
  }
  if (cluster.gate_closed) yield { text: "No node accepts writes now.", cure: "The nodes change their assignment; look again in a moment." };
}

function* views({ views: states }) {
  for (const [name, state] of Object.entries(states)) {
    if (state === "quarantined") yield { text: `The view ${name} is quarantined: no query reads it.`, cure: "Rebuild it on the page Schema." };
  }
}

const builds = ({ builds: all }) => all.filter((build) => build.error).map((build) => ({
  text: `The build of ${build.name} has failed: ${build.error}`,
  cure: "Mend the cause, then rebuild the view on the page Schema.",
}));

function* groups({ groups: all }) {
  if (all === null) yield { text: "The coordination service does not answer.", cure: "Look whether ZooKeeper runs." };
  for (const group of all ?? []) {
    const limit = Math.max(STALE_S, STALE_BATCHES * group.interval_s);
    if (group.problem) yield { text: `The group ${group.name} is not refreshed: ${group.problem.message}`, cure: group.problem.cure };
    else if (group.left) yield { text: `The nodes leave the group ${group.name} to Spark: ${group.left}.`, cure: "Run hornbeam refresh." };
    else if (group.lag_s > limit) yield { text: `The group ${group.name} is ${duration(group.lag_s)} old.`, cure: "Look whether a process refreshes it." };
  }
}

const verified = ({ verified: all }) => all.filter((last) => last.differences > last.repaired).map((last) => ({
  text: `The ${last.kind} ${last.name} had ${plural(last.differences, "difference")} when it was verified (${moment(last.snapshot)}).`,
  cure: "An administrator repairs views and indexes with: hornbeam verify --repair.",
}));
