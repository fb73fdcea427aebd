/** The result of one check of `daybook doctor`. */
export type Finding = { check: string; ok: boolean; detail: string };
