/*
 * Limits of documents, so that hostile input costs a bounded amount of memory and gets a clear error.
 */

export const maxDocumentBytes = 64 * 1024 * 1024;
/** The maximum number of objects and arrays. A map of 100,000 scenes has 200,003. */
export const maxContainers = 1_000_000;
/** The maximum depth. The schema needs 4. */
export const maxDepth = 64;
/** The maximum number of findings for one document. One more states that there are others. */
export const maxFindings = 10_000;
