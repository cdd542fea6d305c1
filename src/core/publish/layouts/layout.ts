import type { SourceBundle } from '../../bundle/source-bundle.ts';
import { publishedBy } from '../../catalog/catalog.ts';
import type { StoredState } from '../../catalog/store.ts';
import type { CoreContext } from '../../context.ts';
import type { Layout } from '../../releases/release.ts';
import type { Storage } from '../../storage/storage.ts';
import { isOvertaken } from '../decision/refusals.ts';
import type { DecisionInput, Plan, PlannedOutput } from '../plan.ts';
import type { BundlePublication, PublishRequest } from '../publish-request.ts';
import type { ActionResult } from '../results/result.ts';

/*
 * The interface between the publication loop and the two layouts, `in_place` and `releases`.
 */

/**
 * A layout in which a bundle path can be published. If the path still uses the other layout, `observe`
 * returns that layout's content, and the decision contains a migration. The next round publishes on top of
 * the migrated content.
 */
export interface PublicationLayout<S extends ObservedState, D extends Decision> {
  /** The path used in output URLs, relative to the destination root. */
  readonly urlPath: string;
  /** The other layout. */
  readonly former: Layout;
  /** Reads the state that readers see. */
  observe(candidate: Candidate): Promise<S>;
  /**
   * Decides on the candidate's outputs and calls the request's `onDecided`. Throws the refusals that are not
   * part of a plan.
   */
  decide(observed: S, candidate: Candidate, request: PublishRequest): Promise<D>;
  /** Returns the result of a dry run. Throws the errors of `carryOut` that can be foreseen. */
  preview(decision: D, candidate: Candidate): Promise<ActionResult>;
  /**
   * Carries out a decision without a migration. Returns null if the caller must observe and decide again.
   */
  carryOut(decision: D, candidate: Candidate): Promise<ActionResult | null>;
}

/** The published state on which a decision is based. */
export interface ObservedState {
  stored: StoredState;
  /** Changes whenever the published content changes; null if nothing is published. */
  version: number | string | null;
  /** Rooted at the files recorded in `stored`; null or absent if there are none. */
  base?: Storage | null;
}

export interface Decision {
  plan: Plan;
  /** The outputs to write, for progress reports. */
  writes: readonly PlannedOutput[];
  /** The layout migration that must come first; null if none is needed. */
  migration: Migration | null;
}

/** Publishes the former layout's content in the new layout. */
export interface Migration {
  /**
   * Returns false if another process published or switched in the meantime. Nothing changes for readers then.
   */
  carryOut(): Promise<boolean>;
}

/** Where and how to publish. */
export interface PublicationTask {
  context: CoreContext;
  /** Rooted at the destination. */
  root: Storage;
  /** Rooted at the bundle path. */
  storage: Storage;
  publication: BundlePublication;
  request: PublishRequest;
}

/** The bundle to publish. It may be selected again while the publication waits for other publishers. */
export class Candidate {
  /** The planned outputs, sorted by path. */
  planned: readonly PlannedOutput[] = [];
  readonly #publication: BundlePublication;
  #bundle: SourceBundle;
  /** The version for which the bundle was last selected again; null if it never was. */
  #reselectedVersion: ObservedState['version'] = null;

  constructor(publication: BundlePublication) {
    this.#publication = publication;
    this.#bundle = publication.bundle;
  }

  get bundle(): SourceBundle {
    return this.#bundle;
  }

  /**
   * Reports whether this bundle would replace a newer one that the owner has published since this one was
   * selected. Returns false if the bundle has been selected again since: in that case, the newer one was
   * deliberately removed from the source.
   */
  isOutdated({ stored, version }: ObservedState): boolean {
    const { selectAgain, owner } = this.#publication;
    if (selectAgain === undefined || version === this.#reselectedVersion) return false;
    const { identity: source, created } = this.#bundle;
    return isOvertaken({ source, created }, publishedBy(stored.state, owner));
  }

  /** Selects the bundle again if it is outdated. */
  async update(observed: ObservedState): Promise<void> {
    const { selectAgain } = this.#publication;
    if (selectAgain === undefined || !this.isOutdated(observed)) return;
    this.#bundle = await selectAgain();
    this.#reselectedVersion = observed.version;
  }

  /** Returns the input for a decision, except for the observation. */
  input({ force }: Pick<PublishRequest, 'force'>): Omit<DecisionInput, 'observed'> {
    const { owner, destination, destinationPath } = this.#publication;
    const { identity: source, created, signedBy } = this.#bundle;
    const { workflow } = destination;
    const bundle = { source, created, ...(signedBy === undefined ? {} : { signedBy }) };
    return { owner, bundle, workflow, force, destinationPath, planned: this.planned };
  }
}
