{{- define "daybook.name" -}}
{{- printf "%s-%s" .Release.Name "daybook" | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "daybook.labels" -}}
{{ include "daybook.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "daybook.selector" -}}
app.kubernetes.io/name: daybook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "daybook.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "daybook.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "daybook.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/*
Secrets as files of mode 0400 that belong to the user of the program, which refuses a pepper or a master key that
others can read. Kubernetes mounts them for a group.
Call with a dict of: root, keys.
*/}}
{{- define "daybook.secretsInit" -}}
- name: secrets
  image: {{ include "daybook.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [sh, -c, "install -m 0400 -t /run/secrets /mounted/*"]
  securityContext: {{- include "daybook.containerSecurity" .root | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
  volumeMounts:
    - {name: mounted, mountPath: /mounted, readOnly: true}
    - {name: secrets, mountPath: /run/secrets}
{{- end -}}

{{- define "daybook.secretsVolumes" -}}
- name: mounted
  secret:
    secretName: {{ .root.Values.secret }}
    defaultMode: 0440
    items:
      {{- range .keys }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
- name: secrets
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
- name: tmp
  emptyDir: {sizeLimit: 256Mi}
{{- end -}}

{{- define "daybook.publishedVolume" -}}
- name: published
  {{- if .Values.published.existingClaim }}
  persistentVolumeClaim: {claimName: {{ .Values.published.existingClaim }}}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end -}}

{{- define "daybook.settings" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "daybook.metrics" -}}
{{- if .Values.metrics.enabled }}
- name: METRICS_PORT
  value: {{ .Values.metrics.port | quote }}
- name: METRICS_HOST
  value: 0.0.0.0
{{- end }}
{{- end -}}
