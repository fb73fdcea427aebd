import type { ModelEvent } from '#db/events/subjects.ts';
import type { ModelTerms } from '#db/events/upstream-events.ts';
import type { Stored } from '#db/fold/stored.ts';

/** A public model name, and where its calls go. */
export type Model = {
  name: string;
  terms: ModelTerms;
  state: 'active' | 'retired';
  /** The position of its newest event. */
  position: number;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** The model after the next event of its stream; undefined where it was never defined. */
export function evolveModel(
  model: Model | undefined,
  { event, position, version }: Stored<ModelEvent>,
): Model | undefined {
  if (event.type === 'model.defined')
    return { name: event.model, terms: event.terms, state: 'active', position, version };
  return model && { ...model, ...changeBy(event), position, version };
}

function changeBy(event: Exclude<ModelEvent, { type: 'model.defined' }>): Partial<Model> {
  switch (event.type) {
    case 'model.retired':
      return { state: 'retired' };
  }
}
