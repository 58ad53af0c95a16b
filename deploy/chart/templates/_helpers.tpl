{{- define "kubesched.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "kubesched.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kubesched.labels" -}}
{{ include "kubesched.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "kubesched.account" -}}
{{ .Values.serviceAccount.name | default (include "kubesched.name" .) }}
{{- end -}}

{{- /* The lease: kube-scheduler's own if this scheduler replaces it. */ -}}
{{- define "kubesched.lease" -}}
{{ eq .Values.mode "replacement" | ternary "kube-scheduler" (include "kubesched.name" .) }}
{{- end -}}

{{- define "kubesched.schedulerName" -}}
{{ eq .Values.mode "second" | ternary .Values.schedulerName "default-scheduler" }}
{{- end -}}

{{- /* The KubeSchedulerConfiguration. Fields of `configuration` come first, so that no value hides the lease. */ -}}
{{- define "kubesched.configuration" -}}
{{- $profiles := .Values.profiles | default (list (dict "schedulerName" (include "kubesched.schedulerName" .))) -}}
{{- $lease := dict "leaderElect" true "resourceName" (include "kubesched.lease" .) "resourceNamespace" .Release.Namespace -}}
{{- if eq .Values.mode "replacement" }}{{ $_ := set $lease "resourceNamespace" "kube-system" }}{{ end -}}
{{- $all := merge (dict
  "apiVersion" "kubescheduler.config.k8s.io/v1"
  "kind" "KubeSchedulerConfiguration"
  "leaderElection" (merge $lease .Values.leaderElection)
  "clientConnection" .Values.clientConnection
  "profiles" $profiles
) .Values.configuration -}}
{{- with .Values.extenders }}{{ $_ := set $all "extenders" . }}{{ end -}}
{{ toYaml $all }}
{{- end -}}

{{- /* The fields whose change replaces the pods. */ -}}
{{- define "kubesched.restartingConfiguration" -}}
{{- $all := include "kubesched.configuration" . -}}
{{- if .Values.watchConfig -}}
{{- omit (fromYaml $all) "profiles" "percentageOfNodesToScore" "podInitialBackoffSeconds" "podMaxBackoffSeconds" | toYaml -}}
{{- else -}}
{{- $all -}}
{{- end -}}
{{- end -}}
