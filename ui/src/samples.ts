/** Sample manifests and configurations. */

export const OBJECTS: Record<string, string> = {
  "A pod": `apiVersion: v1
kind: Pod
metadata:
  generateName: hello-
spec:
  containers:
    - name: main
      image: hello
      resources:
        requests: {cpu: 500m, memory: 256Mi}
`,
  "A pod that is too big": `apiVersion: v1
kind: Pod
metadata:
  generateName: giant-
spec:
  containers:
    - name: main
      image: giant
      resources:
        requests: {cpu: "512"}
`,
  "A deployment": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: hello
spec:
  replicas: 6
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      containers:
        - name: main
          image: hello
          resources:
            requests: {cpu: 250m}
`,
  "Spread over zones": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: spread
spec:
  replicas: 6
  selector: {matchLabels: {app: spread}}
  template:
    metadata: {labels: {app: spread}}
    spec:
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {matchLabels: {app: spread}}
      containers:
        - name: main
          image: spread
          resources:
            requests: {cpu: 250m}
`,
  "A node": `apiVersion: v1
kind: Node
metadata:
  name: extra-1
  labels: {topology.kubernetes.io/zone: zone-a}
status:
  allocatable: {cpu: "16", memory: 64Gi, pods: "110"}
`,
};

const HEAD = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
`;

const strategy = (type: string) => `    pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy:
            type: ${type}
            resources:
              - {name: cpu, weight: 1}
              - {name: memory, weight: 1}
`;

export const CONFIGURATIONS: Record<string, string> = {
  "Pack nodes full": `${HEAD}    plugins:
      score:
        disabled:
          - name: PodTopologySpread
          - name: NodeResourcesBalancedAllocation
${strategy("MostAllocated")}`,
  "Spread the load": `${HEAD}${strategy("LeastAllocated")}`,
};
