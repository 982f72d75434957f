"""Trains word2vec by gensim on a text of a sentence a line, and prints one JSON object.

Runs inside the virtual environment that bench/compare-embeddings makes. What is timed is train(), after the vocabulary
was built: with the sentences as lists in memory, or read from the file by gensim's own threads (corpus_file).
"""

import argparse
import json
import sys
import time

from gensim.models import Word2Vec


def corpus(arguments):
    """What build_vocab() and train() take."""
    if arguments.mode == "file":
        return {"corpus_file": arguments.text}
    with open(arguments.text, encoding="utf-8") as file:
        return {"corpus_iterable": [[sys.intern(word) for word in line.split()] for line in file]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text")
    parser.add_argument("--architecture", choices=("skip_gram", "cbow"), default="skip_gram")
    parser.add_argument("--mode", choices=("memory", "file"), default="memory")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.025)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", help="vectors, in word2vec's text format")
    arguments = parser.parse_args()
    model = Word2Vec(
        vector_size=100,
        window=5,
        min_count=5,
        negative=5,
        sample=1e-4,
        sg=int(arguments.architecture == "skip_gram"),
        alpha=arguments.rate,
        epochs=arguments.epochs,
        workers=arguments.workers,
        seed=arguments.seed,
    )
    source = corpus(arguments)
    model.build_vocab(**source)
    counts = {"total_examples": model.corpus_count, "epochs": arguments.epochs}
    if arguments.mode == "file":
        counts["total_words"] = model.corpus_total_words
    start = time.perf_counter()
    model.train(**source, **counts)
    seconds = time.perf_counter() - start
    if arguments.output:
        model.wv.save_word2vec_format(arguments.output)
    print(json.dumps({"seconds": seconds, "words": len(model.wv)}))


if __name__ == "__main__":
    main()
