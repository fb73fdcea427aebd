/** The kinds of alert destinations, each with its own form of message. */
export const DESTINATION_KINDS = ['webhook', 'slack', 'teams', 'email'] as const;
export type DestinationKind = (typeof DESTINATION_KINDS)[number];
