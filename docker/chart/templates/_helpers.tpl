{{- define "hornbeam.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hornbeam.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hornbeam.labels" -}}
{{ include "hornbeam.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* The service that gives each node a name of its own. */ -}}
{{- define "hornbeam.nodes" -}}
{{ include "hornbeam.name" . }}-nodes
{{- end -}}

{{- /* What follows the name of a pod in the name of its node. */ -}}
{{- define "hornbeam.domain" -}}
{{ include "hornbeam.nodes" . }}.{{ .Release.Namespace }}.svc
{{- end -}}
