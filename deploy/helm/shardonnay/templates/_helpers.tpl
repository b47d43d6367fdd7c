{{- define "shardonnay.selector" -}}
app.kubernetes.io/name: shardonnay
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "shardonnay.labels" -}}
{{ include "shardonnay.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The parts of a pod that the daemon and a plan share. */}}
{{- define "shardonnay.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "shardonnay.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: GOMEMLIMIT
    value: {{ .Values.goMemLimit }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: config
    mountPath: /etc/shardonnay/config
    readOnly: true
  {{- if .Values.secret }}
  - name: secret
    mountPath: /etc/shardonnay/secret
    readOnly: true
  {{- end }}
  - name: state
    mountPath: {{ .Values.config.state.dir }}
{{- end }}

{{- define "shardonnay.volumes" -}}
- name: config
  configMap:
    name: {{ .Release.Name }}
{{- if .Values.secret }}
- name: secret
  secret:
    secretName: {{ .Values.secret }}
    defaultMode: 0440
{{- end }}
- name: state
  emptyDir:
    sizeLimit: 256Mi
{{- end }}

{{- define "shardonnay.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A pod that prints one plan. */}}
{{- define "shardonnay.plan" -}}
backoffLimit: 0
activeDeadlineSeconds: 600
ttlSecondsAfterFinished: 86400
template:
  metadata:
    labels:
      {{- include "shardonnay.labels" . | nindent 6 }}
      app.kubernetes.io/component: plan
  spec:
    automountServiceAccountToken: false
    enableServiceLinks: false
    restartPolicy: Never
    securityContext:
      {{- include "shardonnay.podSecurity" . | nindent 6 }}
    {{- include "shardonnay.placement" . | indent 4 }}
    containers:
      - name: plan
        args: [plan, --config=/etc/shardonnay/config/shardonnay.yaml]
        {{- include "shardonnay.container" . | nindent 8 }}
    volumes:
      {{- include "shardonnay.volumes" . | nindent 6 }}
{{- end }}
