{{- define "helen.name" -}}
{{- if contains "helen" .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-helen" (.Release.Name | trunc 44 | trimSuffix "-") }}{{- end -}}
{{- end -}}

{{- define "helen.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "helen.host" -}}
{{ include "helen.name" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "helen.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "helen.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "helen.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 4166
runAsGroup: 4166
capabilities: {drop: [ALL]}
{{- end -}}
