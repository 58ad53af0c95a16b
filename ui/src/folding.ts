import type { Decision } from "./model";

/** A decision, and how many attempts of the pod had the same outcome. */
export interface FoldedDecision {
  decision: Decision;
  times: number;
}

/** Folds the failed attempts of a pod into the newest; `decisions` and the result begin with the newest. */
export function folded(decisions: Decision[]): FoldedDecision[] {
  const byOutcome = new Map<string, FoldedDecision>();
  const found: FoldedDecision[] = [];
  for (const decision of decisions) {
    const isFailure = !decision.node && decision.what !== "preempted";
    const outcome = `${decision.pod} ${decision.what}`;
    const newer = isFailure ? byOutcome.get(outcome) : undefined;
    if (newer) {
      newer.times += 1;
      continue;
    }
    const line = { decision, times: 1 };
    found.push(line);
    if (isFailure) byOutcome.set(outcome, line);
  }
  return found;
}
