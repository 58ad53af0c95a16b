/** Why a pod waits or goes where it goes, as the server explains it. */

export interface Rejection {
  plugin: string;
  reason: string;
  asked: string;
  available: string;
  detail: string;
}

export interface Group {
  count: number;
  example: string;
  rejections: Rejection[];
  nodes: string[];
}

export interface Suggestion {
  change: string;
  verified: boolean;
  node: string;
  kind: string;
  command: string;
  edits: unknown[];
}

export interface NodeScore {
  node: string;
  total: number;
  plugins: { plugin: string; score: number; weight: number; points: number }[];
}

export interface Explanation {
  pod: string;
  verdict: string;
  summary: string;
  node: string;
  current_node: string;
  nodes: number;
  feasible: number;
  message: string;
  groups: Group[];
  suggestions: Suggestion[];
  preemption: { possible: boolean; node: string; victims: string[]; message: string } | null;
  scores: NodeScore[];
}
