Layouts = Hash.new # :nodoc:

module Sinatra

  # Renders templates.
  module Renderer
    
    DEFAULT_OPTIONS = {
      :views_directory => 'views'
    }
  end
end
