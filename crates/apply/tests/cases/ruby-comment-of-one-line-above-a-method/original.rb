module Shop
  module Plugins
    # Keeps what a visitor has chosen in the answer.
    #
    #   plugin :baskets, :limit=>20
    module Baskets
      # Set up the plugin.
      def self.configure(app, opts={})
        app.opts[:basket_opts] = opts.dup.freeze
      end

      module ResponseMethods
        # Keep an item, below those that are kept already.
        def add_to_basket(item)
          opts = roda_class.opts[:basket_opts]
          basket << Item.new(item, opts)
        end

        # Take an item out again.
        def take_from_basket(item)
          basket.delete(item)
        end
      end
    end

    register_plugin(:baskets, Baskets)
  end
end
