import type { SourceBundle } from '../../bundle/source-bundle.ts';
import { publishedBy } from '../../catalog/catalog.ts';
import type { StoredState } from '../../catalog/catalog-store.ts';
import type { CoreContext } from '../../context.ts';
import type { Layout } from '../../releases/release.ts';
import type { Storage } from '../../storage/storage.ts';
import { isOlderThanPublished } from '../decision/refusals.ts';
import type { DecisionBasis, Plan, PlannedOutput } from '../plan.ts';
import type { BundlePublication, PublishRequest } from '../publish-request.ts';
import type { ActionResult } from '../results/result.ts';

/*
 * The interface through which the publication loop uses either layout, `in_place` or `releases`.
 */

/**
 * A way to arrange published files at a bundle path. If the path still uses the other layout, `observe`
 * returns what is published there, and the decision includes a migration. The new bundle is published in the
 * next round, on top of the migrated files.
 */
export interface PublicationLayout<S extends ObservedState, D extends LayoutDecision> {
  /** The path used in output URLs, relative to the destination root. */
  readonly urlPath: string;
  /** The other layout, which a bundle path may have been published in. */
  readonly otherLayout: Layout;
  /** Reads what is currently published. */
  observe(candidate: Candidate): Promise<S>;
  /**
   * Decides what to do with the candidate's outputs, and calls the request's `onDecided`. Throws an error if
   * publishing is refused for a reason that a plan cannot express.
   */
  decide(observed: S, candidate: Candidate, request: PublishRequest): Promise<D>;
  /** Returns the result for a dry run. Throws any error from `execute` that can be predicted. */
  preview(decision: D, candidate: Candidate): Promise<ActionResult>;
  /**
   * Carries out a decision that does not involve a migration. Returns null if the caller has to start over
   * with `observe`.
   */
  execute(decision: D, candidate: Candidate): Promise<ActionResult | null>;
}

/** The published state that a decision is based on. */
export interface ObservedState {
  stored: StoredState;
  /** Changes whenever published content does; null if nothing is published. */
  version: number | string | null;
  /** Rooted at the files recorded in `stored`; null or absent if there are none. */
  base?: Storage | null;
}

export interface LayoutDecision {
  plan: Plan;
  /** The outputs to write, so that progress can be reported. */
  writes: readonly PlannedOutput[];
  /** The layout migration to carry out first; null if none is needed. */
  migration: Migration | null;
}

/** Moves the content of the other layout to this one. */
export interface Migration {
  /**
   * Returns false if another process published or switched in the meantime. In that case, readers see no
   * change.
   */
  execute(): Promise<boolean>;
}

/** Parameters of a publication: the bundle, the place and the options. */
export interface PublicationTask {
  context: CoreContext;
  /** Rooted at the destination. */
  root: Storage;
  /** Rooted at the bundle path. */
  storage: Storage;
  publication: BundlePublication;
  request: PublishRequest;
}

/**
 * The bundle that is going to be published. If other publishers get there first, it may be replaced with a
 * newer selection from the source.
 */
export class Candidate {
  /** The planned outputs, sorted by path. */
  planned: readonly PlannedOutput[] = [];
  readonly #publication: BundlePublication;
  #bundle: SourceBundle;
  /** The published version that led to the last new selection; null if there was none. */
  #reselectedVersion: ObservedState['version'] = null;

  constructor(publication: BundlePublication) {
    this.#publication = publication;
    this.#bundle = publication.bundle;
  }

  get bundle(): SourceBundle {
    return this.#bundle;
  }

  /**
   * Reports whether the owner has published a newer bundle since this one was selected. If this one was
   * selected again after that, the newer bundle must have been deleted from the source on purpose, so the
   * answer is no.
   */
  isOutdated({ stored, version }: ObservedState): boolean {
    const { selectAgain, owner } = this.#publication;
    if (selectAgain === undefined || version === this.#reselectedVersion) return false;
    const { identity: source, created } = this.#bundle;
    return isOlderThanPublished({ source, created }, publishedBy(stored.state, owner));
  }

  /** Selects the bundle again if it is outdated. */
  async update(observed: ObservedState): Promise<void> {
    const { selectAgain } = this.#publication;
    if (selectAgain === undefined || !this.isOutdated(observed)) return;
    this.#bundle = await selectAgain();
    this.#reselectedVersion = observed.version;
  }

  /** Returns everything a decision depends on except the observation. */
  input({ force }: Pick<PublishRequest, 'force'>): DecisionBasis {
    const { owner, destination, destinationPath } = this.#publication;
    const { identity: source, created, signedBy } = this.#bundle;
    const { workflow } = destination;
    const bundle = { source, created, ...(signedBy === undefined ? {} : { signedBy }) };
    return { owner, bundle, workflow, force, destinationPath, planned: this.planned };
  }
}
