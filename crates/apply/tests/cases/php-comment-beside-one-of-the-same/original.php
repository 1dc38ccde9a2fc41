<?php

declare(strict_types=1);

namespace Young;

final class Writer
{
    private $repository;

    private $output;

    public function write(Inspector $inspector): void
    {
        $this->renderTitleAndDescription($inspector);

        $frames = $this->getFrames($inspector);
        $editor = array_shift($frames);

        if ($this->showEditor && $editor !== null) {
            $this->renderEditor($editor);
        }

        $this->renderSolution($inspector);
    }

    private function renderSolution(Inspector $inspector): void
    {
        $throwable = $inspector->getException();
        $solutions = $this->repository->getFromThrowable($throwable);

        foreach ($solutions as $solution) {
            /** @var \Old\Contracts\Solution $solution */
            $title = $solution->getSolutionTitle();
            $description = $solution->getSolutionDescription();
            $links = $solution->getDocumentationLinks();

            $this->output->writeln($title);
            $this->output->writeln($description);
            $this->output->writeln(implode(' ', $links));
        }
    }
}
