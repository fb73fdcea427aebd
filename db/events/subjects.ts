import type { ControlEvent, Event, EventOf, EventType } from '#db/events/events.ts';

/** Which control event is about what. Pure. */

type Of<S extends string> = EventOf<Extract<EventType, `${S}.${string}`> & ControlEvent['type']>;
export type AccountEvent = Of<'account'>;
export type KeyEvent = Of<'key'>;
export type PlanEvent = Of<'plan'>;
export type MemberEvent = Of<'member'>;
export type UpstreamEvent = Of<'upstream'>;
/** The routing of a model; its price is a separate subject. */
export type ModelEvent = EventOf<'model.defined' | 'model.retired'>;
export type AttributionEvent = Of<'attribution'>;
export type SinkEvent = Of<'sink'>;
export type ManagementKeyEvent = Of<'management_key'>;
export type IdentityProviderEvent = Of<'identity_provider'>;
export type WorkloadEvent = EventOf<'workload.configured' | 'workload.removed'>;
/** What concerns the log as a whole: who signs it, and where a history was given up. */
export type SigningEvent = EventOf<'log.signer_changed' | 'log.epoch_started'>;
/** Whatever may change what an account or a key may use. */
export type TermsEvent = AccountEvent | KeyEvent | PlanEvent;

export const isAccountEvent = (event: Event): event is AccountEvent => event.type.startsWith('account.');
export const isKeyEvent = (event: Event): event is KeyEvent => event.type.startsWith('key.');
export const isPlanEvent = (event: Event): event is PlanEvent => event.type.startsWith('plan.');
export const isMemberEvent = (event: Event): event is MemberEvent => event.type.startsWith('member.');
export const isUpstreamEvent = (event: Event): event is UpstreamEvent => event.type.startsWith('upstream.');
export const isModelEvent = (event: Event): event is ModelEvent =>
  event.type === 'model.defined' || event.type === 'model.retired';
export const isAttributionEvent = (event: Event): event is AttributionEvent =>
  event.type.startsWith('attribution.');
export const isTermsEvent = (event: Event): event is TermsEvent =>
  isAccountEvent(event) || isKeyEvent(event) || isPlanEvent(event);
